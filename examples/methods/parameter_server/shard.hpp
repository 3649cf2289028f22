// A server's share of the parameters, and the optimizer that moves it.
#pragma once

#include "kolo/train/libtorch.hpp"

#include <torch/optim/optimizer.h>
#include <torch/serialize/archive.h>

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "kolo/train/distributed_data_parallel.hpp"
#include "methods/parameter_server/layout.hpp"

namespace kolo::methods {

/// Rows of tables on one server, table by table.
struct RowSet {
  struct OfTable {
    std::size_t table = 0;
    at::Tensor local;  ///< int64: places among this server's rows of the table
  };
  std::vector<OfTable> tables;
  std::uint64_t elements = 0;  ///< of all the rows
};

/// What a worker has pushed: its share of the elements [n], then rows with their values, one after the other.
struct Push {
  at::Tensor elements;
  RowSet rows;
  at::Tensor values;
};

struct Contribution {
  Push* push;
  double factor;
};

class ServerShard {
 public:
  /// Throws InvalidArgumentError for an optimizer that needs more than an element, or a row, to move it.
  ServerShard(const ServerLayout& layout, int server, const OptimizerFactory& make_optimizer, PushKind kind);

  std::uint64_t elements() const { return static_cast<std::uint64_t>(parameters_.numel()); }
  std::uint64_t rows() const { return rows_; }
  /// Throws InvalidArgumentError for an id that is not of this server, or where tables are out of order.
  RowSet rows_of(std::span<const std::uint64_t> ids) const;

  /// One update. Overwrites what was pushed.
  void apply(std::span<const Contribution> contributions);
  std::uint64_t version() const { return version_; }

  /// [elements()], float32; apply() changes it.
  const at::Tensor& parameters() const { return parameters_; }
  at::Tensor values_of(const RowSet& rows) const;
  torch::optim::Optimizer* optimizer() { return optimizer_.get(); }

  void save(torch::serialize::OutputArchive& archive) const;
  /// Throws std::runtime_error for another share.
  void load(torch::serialize::InputArchive& archive);

 private:
  void step(std::span<const Contribution> contributions);
  void average(std::span<const Contribution> contributions);
  at::Tensor gradient_of(std::size_t table, std::span<const Contribution> contributions) const;

  struct Table {
    ServerTable whole;
    at::Tensor own;  ///< this server's rows
  };
  std::uint64_t servers_, server_;
  PushKind kind_;
  at::Tensor parameters_;
  std::vector<Table> tables_;
  std::uint64_t rows_;
  std::unique_ptr<torch::optim::Optimizer> optimizer_;  ///< null if weights are pushed
  std::uint64_t version_ = 0;
};

}  // namespace kolo::methods
