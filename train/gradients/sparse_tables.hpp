// SparseTables: averages the gradients of embeddings, of which each rank has few rows.
#pragma once

#include "kolo/train/libtorch.hpp"

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "gradients/averaging_thread.hpp"
#include "kolo/sparse.hpp"
#include "kolo/train/distributed_data_parallel.hpp"
#include "ranks/replicas.hpp"

namespace kolo::train {

/// The tables of a model, each a parameter whose gradient is a sparse tensor of whole rows (first dimension).
/// They are averaged one after another, in the same order on all ranks, by a thread of their own beside the
/// buckets. Not thread-safe.
class SparseTables {
 public:
  using Clock = std::chrono::steady_clock;

  struct Table {
    std::size_t parameter;  ///< index among the reducer's parameters
    std::string name;
    at::Tensor values;         ///< the parameter as it was, for its type and shape
    at::Tensor gradient = {};  ///< this rank's, while it is averaged
    at::Tensor average = {};   ///< coalesced
    bool is_ready = false;     ///< in this backward
    AveragingJob job = {};
    Clock::time_point started = {};
    std::uint64_t bytes = 0;  ///< of this rank's rows and their indices
  };

  /// Collective. Takes a communicator of its own out of `communicator` by split(). `tables` index
  /// `parameters`.
  SparseTables(std::span<const NamedTensor> parameters, std::span<const std::size_t> tables,
               Communicator& communicator, SparseMethod method);
  SparseTables(const SparseTables&) = delete;
  SparseTables& operator=(const SparseTables&) = delete;

  /// A backward begins that averages. This rank's gradients count `factor` times.
  void begin(double factor);
  /// Starts averaging a parameter's gradient, which is undefined where this rank has none, as soon as those
  /// of the tables before it are there. Throws InvalidArgumentError for one that is dense or not of whole
  /// rows.
  void collect(std::size_t parameter, const at::Tensor& gradient);
  /// Blocks until all averages are there. Throws the first error. Returns whether all are finite.
  bool wait() { return thread_.wait(); }

  /// The order in which they are averaged from now on: that of the tables in `order`, an order of all
  /// parameters.
  void set_order(std::span<const std::size_t> order);
  const Table& table_of(std::size_t parameter) const { return tables_[index_of_.at(parameter)]; }
  const std::vector<Table>& tables() const noexcept { return tables_; }

 private:
  bool average(Table& table, Communicator& communicator);

  std::vector<Table> tables_;
  std::map<std::size_t, std::size_t> index_of_;  ///< among tables_, by parameter
  std::vector<std::size_t> order_;
  std::size_t next_ = 0;  ///< in order_
  double factor_ = 1;
  Communicator communicator_;
  std::optional<SparseAllReduce> sums_;  ///< used by the thread alone; none with SparseMethod::all_gather
  AveragingThread thread_;               ///< last, as its jobs use the rest
};

}  // namespace kolo::train
