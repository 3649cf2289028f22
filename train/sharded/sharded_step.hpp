// ShardedStep: gathers units when they are used, and averages their gradients when they are there.
#pragma once

#include "kolo/train/libtorch.hpp"

#include <chrono>
#include <cstdint>
#include <exception>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "kolo/train/parallel_model.hpp"
#include "libtorch/first_use.hpp"
#include "libtorch/gradient_listener.hpp"
#include "ranks/replicas.hpp"
#include "sharded/unit.hpp"
#include "sharded/unit_plan.hpp"

namespace kolo::train {

/// The engine of ShardedDataParallel, which documents the behaviour. All ranks use the units in one order, as
/// they run one model; gathers have a communicator of their own, so that they need no order among averages.
class ShardedStep final : public GradientListener {
 public:
  /// `buffers` may be null.
  ShardedStep(std::vector<PlannedUnit> plan, Replicator* buffers, const Communicator& communicator,
              const ShardedDataParallelOptions& options);
  ~ShardedStep();
  ShardedStep(const ShardedStep&) = delete;
  ShardedStep& operator=(const ShardedStep&) = delete;

  /// Throws the error of an earlier step.
  void require_sound();
  void begin_forward();
  void end_forward();
  /// Takes over what was written to the units. An error comes with the next forward.
  void make_whole() override;
  void leave_whole() noexcept override;

  std::span<const Unit> units() const noexcept { return units_; }
  const CommunicationStatistics& total() const noexcept { return total_; }
  Communicator& communicator() noexcept { return averages_; }

 private:
  using Clock = std::chrono::steady_clock;
  struct Parameter {
    std::size_t unit, member;
    NodePtr accumulator;  ///< autograd holds it weakly; without it no hook fires
    std::uintptr_t hook = 0;
  };

  void watch_gradients();
  void require_own() const;
  CallOptions gather_of(std::size_t unit) const;
  void note_moves();
  void use(std::span<const std::size_t> watched, FirstUse::Access access) noexcept;
  void use_all_kept(std::span<const std::size_t> units);
  void use_some(std::span<const std::size_t> units);
  std::vector<std::size_t> with_siblings(std::span<const std::size_t> units) const;
  void note_use(std::size_t unit);
  void prefetch(std::size_t unit);
  void start_gathers(std::size_t end);
  void wait_gather(std::size_t unit);
  void release_all();

  void on_gradient(std::size_t index) override;
  void end_run() override;
  void leave_run(bool is_over) noexcept override;
  void begin_backward();
  void start_complete();
  void finish_oldest();
  void follow_rank_0();
  void finish();
  void leave(const std::string& reason) noexcept;
  [[noreturn]] void fail();

  const Shard shard_;
  Communicator gathers_, averages_;
  std::vector<Unit> units_;
  std::vector<bool> is_shared_;
  std::vector<std::size_t> modules_;  ///< of each unit: the first unit of its submodule
  std::vector<std::string> labels_;   ///< of calls for a unit
  /// Units, and under numbers that begin after theirs, the shards of each unit.
  std::vector<std::pair<at::Tensor, std::size_t>> watched_;
  std::vector<Parameter> parameters_;
  Replicator* buffers_;

  std::mutex mutex_;                ///< operations may run in several threads
  std::vector<std::size_t> order_;  ///< in which forward uses units
  std::vector<std::size_t> uses_;   ///< in this forward
  std::size_t last_used_;           ///< first unit of the submodule; units_.size(): none
  bool in_forward_ = false;
  bool is_awaited_ = false;     ///< a backward of the last forward
  Work turn_;                   ///< says that a forward took the place of the backward
  bool has_gradients_ = false;  ///< of a backward since the last forward, so that a step may have come
  int held_ = 0;                ///< make_whole() without leave_whole()
  std::uint32_t passes_ = 0;    ///< forwards so far, the same number on all ranks

  bool in_backward_ = false;
  bool end_is_queued_ = false;
  std::uint64_t steps_ = 0;
  std::vector<std::size_t> average_order_;            ///< of units that are not frozen
  std::vector<std::size_t> ready_order_;              ///< in this backward
  std::size_t next_started_ = 0, next_finished_ = 0;  ///< in average_order_
  Clock::time_point first_start_;
  std::vector<std::uint8_t> used_;  ///< of each parameter: by this rank, then by any rank
  Work agreement_;                  ///< about used_
  std::exception_ptr error_;
  std::chrono::nanoseconds exposed_{0};
  CommunicationStatistics total_;
  FirstUse first_use_;  ///< last: it calls use()
};

}  // namespace kolo::train
