// ScheduleExecutor: the operations that exchange messages, and which message a receive gets.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "base/memory_pool.hpp"
#include "engine/executor.hpp"
#include "engine/schedule_operation.hpp"

namespace kolo::engine {

/// The links call the steps of an operation, so this needs no poll of its own.
class ScheduleExecutor final : public Executor {
 public:
  /// `memory` outlives the executor. `is_timed`: an observer needs times.
  ScheduleExecutor(int rank, bool is_timed, Peers& peers, MemoryPool& memory, ExecutorListener& listener)
      : Executor(peers, listener), rank_(rank), is_timed_(is_timed), memory_(memory) {}

  std::shared_ptr<Operation> make(std::weak_ptr<Engine> owner) override {
    return std::make_shared<ScheduleOperation>(*this, std::move(owner));
  }
  void begin(Operation& operation, bool waits_now) override;
  /// Messages have come from the peer, or begun to come, for which no receive is posted.
  void on_arrived(int peer);
  /// A receive from any rank, or a probe, that has found nothing ends.
  void forget(const Operation& operation) {
    std::erase_if(unmatched_, [&](const ScheduleOperation* other) { return other == &operation; });
  }
  /// A receive from any rank to which no rank is left that could send; or null.
  Operation* find_unmatchable() const;
  /// All operations end.
  void abandon() { unmatched_.clear(); }

  /// --- For its operations. ---
  bool is_timed() const noexcept { return is_timed_; }
  transport::Link& link(int peer) { return peers_[peer].link; }
  MemoryPool& memory() noexcept { return memory_; }
  ExecutorListener& listener() noexcept { return listener_; }
  /// The ranks of a communicator, in its numbering, without this one.
  std::vector<int> other_ranks(const std::vector<int>& ranks) const;

 private:
  void find_sender(ScheduleOperation& operation);
  bool match(ScheduleOperation& operation, int source);

  const int rank_;
  const bool is_timed_;
  MemoryPool& memory_;
  // Receives from any rank that have no message yet, in the order of their starts; all are in flight.
  std::vector<ScheduleOperation*> unmatched_;
  std::size_t next_source_ = 0;  // the rank whose messages such a receive looks at first
};

}  // namespace kolo::engine
