// SharedMemoryExecutor: the operations that the ranks of a host carry out in shared memory, in all groups.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <memory>
#include <vector>

#include "engine/backoff.hpp"
#include "engine/driver.hpp"
#include "engine/executor.hpp"
#include "engine/group.hpp"

namespace kolo::engine {

class SharedMemoryExecutor final : public Executor {
 public:
  /// The references outlive the executor.
  SharedMemoryExecutor(Backoff& backoff, const Groups& groups, const Driver& driver, Peers& peers,
                       ExecutorListener& listener)
      : Executor(peers, listener), backoff_(backoff), groups_(groups), driver_(driver) {}

  bool try_immediate(const OperationSpec& spec) override;
  std::shared_ptr<Operation> make(std::weak_ptr<Engine> owner) override;
  void begin(Operation& operation, bool waits_now) override;

  /// Does what can be done now; returns whether anything moved.
  bool advance();
  /// Does what can be done now and wakes the ranks that sleep; returns whether anything moved.
  bool advance_and_tell();
  /// The engine's ranks for which groups wait.
  std::vector<int> awaited_peers() const;
  /// Ends all calls: when it returns, no living rank touches their memory.
  void abandon();

  /// Whether all `operations` that are in flight are calls of one group whose ranks share cores, and no link
  /// needs system calls: a caller may nap until the group's counters change. See Driven.
  bool waits_alone(std::size_t operations) const { return group_to_wait_on(operations) != nullptr; }
  bool prepare_to_nap(std::size_t operations);
  /// Without the lock.
  bool nap(std::chrono::nanoseconds longest);
  /// Ends a nap; returns false if there is none.
  bool interrupt();
  /// Before Peers::announce_sleep(); woken() follows.
  void fall_asleep();
  /// After a nap or a sleep.
  void woken();

 private:
  template <typename Poll>
  bool poll_first(const shared_memory::Team& team, Poll once);
  Group* group_to_wait_on(std::size_t operations) const;

  Backoff& backoff_;
  const Groups& groups_;
  const Driver& driver_;
  shared_memory::Awaited napping_on_;     // while the driver naps
  std::atomic<bool> interrupted_{false};  // the nap
};

}  // namespace kolo::engine
