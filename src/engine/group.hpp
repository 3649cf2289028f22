// Group: what an engine knows of one communicator. Groups: those of one engine.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <list>
#include <map>
#include <memory>
#include <unordered_map>
#include <utility>
#include <vector>

#include "engine/peers.hpp"
#include "engine/shared_memory/team.hpp"

namespace kolo::engine {

/// `context` and `slot` may be read without the lock, and so may `peers` once the Group is open, and `team`
/// after share_memory().
struct Group {
  static constexpr std::size_t kHistory = 64;

  /// Remembers a collective, to tell a stray message from an early one.
  void remember(std::uint64_t sequence, const transport::Signature& signature) {
    last_sequence = sequence;
    history[sequence % kHistory] = signature;
  }
  const transport::Signature& remembered(std::uint64_t sequence) const {
    return history[sequence % kHistory];
  }

  std::uint32_t context = 0;                       ///< the communicator's number
  std::uint32_t slot = shared_memory::kCommSlots;  ///< of the shared segments; kCommSlots: none
  std::vector<int> peers = {};                     ///< the link of each rank
  std::unique_ptr<shared_memory::Team> team = {};  ///< null if the ranks share no memory
  bool is_closed = false;                          ///< this rank makes no more calls
  int operations = 0;                              ///< in flight
  std::uint64_t last_sequence = 0;                 ///< of the collectives
  std::array<transport::Signature, kHistory> history{};
  /// Number of receives so far, by (link, tag): the k-th send matches the k-th receive.
  std::map<std::pair<int, std::uint32_t>, std::uint32_t> receives = {};
};

/// Owns the groups. Used under the engine's lock.
class Groups {
 public:
  /// The number that no group reserves: see meet().
  static constexpr std::uint32_t kMeeting = ~2u;

  /// The references outlive the Groups.
  Groups(int rank, Peers& peers, ExecutorListener& listener)
      : rank_(rank), peers_(peers), listener_(listener) {}

  /// A new group with this number, and with this rank's first free slot from `first_slot` on, if there is
  /// one. A slot is free once the communicator that used it has left it on all its ranks. The slot is cleared
  /// when this returns. Null if this rank uses the number. open() or withdraw() follows.
  Group* reserve(std::uint32_t context, std::uint32_t first_slot);
  void withdraw(Group& group);
  /// A group for the calls in which some ranks agree on what to reserve. All such groups have one number,
  /// kMeeting. Their calls differ by their sequence numbers.
  Group* meet(std::vector<int> peers);
  /// Calls may begin. All the ranks have reserved the same number and the same slot, or none.
  void open(Group& group, std::vector<int> peers);
  /// Calls in shared memory may begin, if all ranks share a host's memory. `shared_cores`: see
  /// shared_memory::Team. Returns false if they share it, but no slot was free.
  bool share_memory(Group& group, int shared_cores);
  /// Calls in flight go on to their end.
  void close(Group& group);

  /// Null if there is none, and for kMeeting.
  Group* find(std::uint32_t context) const;
  /// Those whose ranks share memory.
  const std::vector<Group*>& in_memory() const noexcept { return in_memory_; }

 private:
  void give_back_slot(Group& group);
  void remove_unused();

  const int rank_;
  Peers& peers_;
  ExecutorListener& listener_;
  std::unordered_map<std::uint32_t, std::unique_ptr<Group>> groups_;  // by context
  std::list<Group> meetings_;
  std::vector<Group*> in_memory_;
  std::deque<Group*> closed_;  // of those that share no memory, in the order of their ends
};

}  // namespace kolo::engine
