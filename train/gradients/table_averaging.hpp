// TableAveraging: averages the gradients of embeddings, of which each rank has few rows.
#pragma once

#include "kolo/train/libtorch.hpp"

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "gradients/averaging.hpp"
#include "gradients/averaging_thread.hpp"
#include "kolo/sparse.hpp"
#include "kolo/train/distributed_data_parallel.hpp"
#include "ranks/model.hpp"

namespace kolo::train {

/// The tables of a model, each a parameter whose gradient is a sparse tensor of whole rows (first dimension),
/// and a bucket of its own. A thread averages them, beside the dense buckets.
class TableAveraging final : public Averaging {
 public:
  /// Collective. Takes a communicator of its own out of `communicator` by split(). `tables` index
  /// `parameters`.
  TableAveraging(std::span<const NamedTensor> parameters, std::span<const std::size_t> tables,
                 Communicator& communicator, SparseMethod method);

  void lay_out(std::span<const std::size_t> order, std::span<const std::size_t> ends) override;
  bool is_alike(std::size_t bucket, std::size_t, const at::Tensor& parameter) const override {
    return have_one_layout(parameter, tables_[bucket].values);
  }
  void wait() override { are_finite_ = thread_.wait(); }
  at::Tensor result(std::size_t bucket, std::size_t) override {
    return tables_[bucket].average.to(tables_[bucket].values.device());
  }
  void settle() noexcept override { thread_.settle(); }
  bool are_finite() const override { return are_finite_; }
  Span span(std::size_t bucket) const override {
    return {tables_[bucket].started, tables_[bucket].job.ended, tables_[bucket].bytes};
  }
  std::string name_of(std::size_t bucket) const override { return "rows of " + tables_[bucket].name; }
  const char* row() const override { return "tables"; }
  std::uint64_t& count_of(CommunicationStatistics& statistics) const override {
    return statistics.sparse_sums;
  }

 private:
  struct Table {
    std::size_t parameter;
    std::string name;
    at::Tensor values;         ///< the parameter as it was, for its type and shape
    at::Tensor gradient = {};  ///< this rank's, while it is averaged
    at::Tensor average = {};   ///< coalesced, in the host's memory
    AveragingJob job = {};
    Clock::time_point started = {};
    std::uint64_t bytes = 0;  ///< of this rank's rows and their indices
  };

  /// Throws InvalidArgumentError for a gradient that is dense or not of whole rows.
  void take(std::size_t bucket, std::size_t, const at::Tensor& parameter) override;
  void start(std::size_t bucket) override;
  bool average(Table& table, Communicator& communicator);

  std::vector<Table> tables_;  ///< in the order in which they are averaged
  bool are_finite_ = true;
  std::optional<SparseAllReduce> sums_;  ///< used by the thread alone; none with SparseMethod::all_gather
  AveragingThread thread_;               ///< last, as its jobs use the rest
};

}  // namespace kolo::train
