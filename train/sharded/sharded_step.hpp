// ShardedStep: gathers units when they are used.
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

#include "libtorch/first_use.hpp"
#include "sharded/unit.hpp"

namespace kolo::train {

/// The half of ShardedDataParallel's engine that gathers; ShardAveraging is the other one. All ranks use the
/// units in one order, as they run one model; gathers have a communicator of their own, so that they need no
/// order among averages.
class ShardedStep {
 public:
  ShardedStep(const std::vector<PlannedUnit>& plan, const Communicator& communicator,
              const ShardedDataParallelOptions& options);
  ~ShardedStep();
  ShardedStep(const ShardedStep&) = delete;
  ShardedStep& operator=(const ShardedStep&) = delete;

  /// Throws the error of an earlier step.
  void require_sound() const;
  void begin_forward();
  void end_forward();
  /// Takes over what was written to the units. An error comes with the next forward.
  void make_whole();
  void leave_whole() noexcept;
  /// With its first gradient. No shard moves before its end.
  void begin_backward();
  /// The unit's backward is over. Should an operation use it again, it is gathered again.
  void release_used(std::size_t unit);
  /// A backward is over. `has_averaged`: a step may come.
  void end_backward(bool has_averaged);

  std::vector<Unit>& units() noexcept { return units_; }
  /// Names a unit in calls for it.
  CallOptions call_of(std::size_t unit) const;
  const std::string& name_of(std::size_t unit) const { return names_[unit]; }
  /// For how long forwards and backwards have waited for gathers, since the last time.
  std::chrono::nanoseconds take_exposed() { return std::exchange(exposed_, std::chrono::nanoseconds(0)); }

 private:
  using Clock = std::chrono::steady_clock;

  void require_own() const;
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
  void follow_rank_0();
  /// Runs it. Remembers an error, tells the other ranks where they do not know, and throws it on.
  template <typename Action>
  void guard(const Action& action) {
    try {
      action();
    } catch (...) {
      fail();
    }
  }
  [[noreturn]] void fail();

  const Shard shard_;
  Communicator gathers_, averages_;
  std::vector<Unit> units_;
  std::vector<bool> is_shared_;
  std::vector<std::size_t> modules_;  ///< of each unit: the first unit of its submodule
  std::vector<std::string> names_;    ///< of units
  /// Units, and under numbers that begin after theirs, the shards of each unit.
  std::vector<std::pair<at::Tensor, std::size_t>> watched_;

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
  std::uint64_t backwards_ = 0;
  std::exception_ptr error_;
  std::chrono::nanoseconds exposed_{0};
  FirstUse first_use_;  ///< last: it calls use()
};

}  // namespace kolo::train
