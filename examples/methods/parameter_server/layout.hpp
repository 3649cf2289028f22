// Which parameters of a model lie where on the servers: elements in equal ranges, rows of tables in turn.
#pragma once

#include "kolo/train/libtorch.hpp"

#include <torch/nn/module.h>

#include <cstdint>
#include <string>
#include <vector>

#include "kolo/train/distributed_data_parallel.hpp"
#include "methods/parameter_server.hpp"

namespace kolo::methods {

/// A table whose rows are pushed and pulled by id.
struct ServerTable {
  std::string name;
  at::Tensor tensor;  ///< the model's own
  std::uint64_t rows = 0;
  std::uint64_t width = 0;     ///< elements of a row
  std::uint64_t first_id = 0;  ///< of row 0; rows of all tables have ids in a row
};

struct ElementRange {
  std::uint64_t begin = 0, end = 0;
  std::uint64_t size() const { return end - begin; }
};

class ServerLayout {
 public:
  /// Throws InvalidArgumentError, with its name, for a parameter that servers cannot hold: not float32, not a
  /// dense CPU tensor, a table that is not contiguous. Frozen parameters and buffers stay each rank's own.
  ServerLayout(const torch::nn::Module& module, const ParameterServerOptions& options);

  int servers() const { return servers_; }
  std::uint64_t elements() const { return elements_; }
  ElementRange share_of(int server) const;
  const std::vector<ServerTable>& tables() const { return tables_; }
  /// Rows of a table on one server: those with row % servers == server, in order.
  std::uint64_t rows_on(int server, const ServerTable& table) const;
  /// Of all tables.
  std::uint64_t rows_on(int server) const;

  /// A line for each parameter, with all that ranks must agree on.
  std::string text() const;

  /// Views of `flat` ([elements()], float32), one for each parameter that is no table, with its shape and
  /// strides, in the order of parameters().
  std::vector<at::Tensor> views_of(const at::Tensor& flat) const;
  const std::vector<PlacedParameter>& parameters() const { return parameters_; }

 private:
  int servers_;
  std::uint64_t elements_ = 0;
  std::vector<PlacedParameter> parameters_;  ///< those that are no tables
  std::vector<ServerTable> tables_;
};

}  // namespace kolo::methods
