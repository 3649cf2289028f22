// Team: the ranks of a communicator that share a host's memory, and the calls that they carry out in it.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/deadline.hpp"
#include "base/ring_queue.hpp"
#include "engine/shared_memory/arrival.hpp"
#include "engine/shared_memory/segment.hpp"

namespace kolo::engine {
class ExecutorListener;
class Operation;
struct OperationSpec;
}  // namespace kolo::engine

namespace kolo::engine::shared_memory {

/// The ranks announce their calls in order, each on its own segment, and finish them in order. A short call
/// is done as soon as all ranks have announced it, because the data comes with the descriptor. A long call
/// then runs its algorithm. While it only waits for the other ranks' parts, the next call runs. No function
/// waits: advance() does what can be done now. Used under the engine's lock.
/// What depends on whether the ranks share cores is in Arrival.
class Team {
 public:
  /// `local_peers[r]` leads to rank r of the communicator; null for `rank` itself. They outlive the Team.
  /// `shared_cores`: number of cores if the ranks share them, 0 if each rank has one; the same on all ranks.
  Team(int rank, std::vector<transport::LocalPeer*> local_peers, std::uint32_t slot, int shared_cores,
       ExecutorListener& listener);

  bool is_busy() const { return !calls_.empty(); }
  /// Whether the operation is the first call: the other calls wait behind it.
  bool is_first(const Operation& operation) const {
    return is_busy() && calls_.front().operation == &operation;
  }
  /// Whether to poll after a begin() for which no caller waits yet. True for the first call, and then for
  /// every kTogether-th: the calls between are announced and carried out together. So the stalls of locked
  /// instructions, on a core that writes to other cores, come once for all of them.
  bool wants_poll() const {
    const std::uint64_t behind = finished_ + calls_.size() - announced_;
    return calls_.size() == 1 || (behind > 0 && behind % kTogether == 0);
  }
  /// Announces a call before it is worth making an operation for it; no other call may be in flight.
  /// try_immediate() does what can be done now, and returns whether the call is over. If it is not, the next
  /// begin() must be for this call.
  void begin_immediate(const OperationSpec& spec);
  bool try_immediate();
  /// Number of calls for which operations have begun and not finished.
  std::size_t in_flight() const { return calls_.size(); }
  /// The operation must live until it has finished or the Team is abandoned. `waits_now`: its caller does
  /// nothing else until it is over. A call behind other calls for which no caller waits is announced by the
  /// next poll.
  void begin(Operation& operation, bool waits_now);
  /// Does what can be done now; returns whether anything moved. Sleeping ranks may learn of it only from
  /// tell().
  bool advance();
  /// Wakes the ranks that sleep, if anything was published since the last time.
  void tell();
  /// The number for which the first call waits, for a caller that polls nothing else meanwhile. To be called
  /// just after a poll: if the number has changed since that poll, the result is empty.
  Awaited awaited() const;
  /// Before a sleep that only a doorbell ends, and after it; see SliceCounters::sleeping.
  void fall_asleep();
  void wake_up();
  /// Whether awaited() names counters on which a caller may nap, unless the number has changed.
  bool can_nap() const;
  /// Ranks whose announcement, or whose progress, the first call lacks.
  std::vector<int> waiting_for() const;

  /// Ends all calls: when it returns, no living rank touches their memory. `is_lost(r)`: that rank's process
  /// has ended. If a stopped rank may still write in the memory when it wakes up, the memory is detached (see
  /// detach_shared_memory()).
  template <typename IsLost>
  void abandon(IsLost is_lost) {
    close();
    std::vector<bool> lost;
    for (int r = 0; r < size(); ++r) lost.push_back(r == rank_ || is_lost(r));
    release(lost);
  }

 private:
  /// A call that was begun and has not finished.
  struct Begun {
    Operation* operation = nullptr;
    bool behind_others = false;  ///< see CallDescriptor::kBehindOthers
  };
  static constexpr std::uint64_t kTogether = kCallsAhead / 2;

  int size() const { return static_cast<int>(slots_.size()); }
  Running& running(std::uint64_t place) { return running_[(place - first_) % kCallsAhead]; }
  const Running& running(std::uint64_t place) const { return running_[(place - first_) % kCallsAhead]; }
  /// Short calls that finish in one poll finish at one time, because reading a clock takes a tenth of their
  /// duration.
  Clock::time_point now() {
    if (now_ == Clock::time_point{}) now_ = Clock::now();
    return now_;
  }
  void announce(const OperationSpec& spec, bool behind_others);
  void announce_more();
  bool is_agreed(Running& running, Operation* operation, bool& moved);
  bool step(Running& running, Operation* operation, bool& moved);
  void stop_writing();
  void publish_done();
  void begin_algorithm(Running& running);
  bool is_short(const Running& running) const;
  bool reach_memory(Running& running, Operation* operation);
  bool is_still_shared(const Running& running) const;
  void prefault_short();
  void prefault_pieces(std::uint64_t bytes);
  void fail(Operation* operation, int rank, const std::string& why);
  void close();
  void release(const std::vector<bool>& lost);

  const int rank_;
  const std::unique_ptr<Arrival> arrival_;
  std::vector<transport::LocalPeer*> local_peers_;
  ExecutorListener& listener_;
  Segment* segment_;
  CommSlot* slot_;
  std::vector<Segment*> segments_;  ///< of every rank
  std::vector<CommSlot*> slots_;
  std::vector<std::uint32_t> rung_;  ///< by rank: the value of `asleep` for which it was last rung

  RingQueue<Begun> calls_;   ///< in order
  std::uint64_t first_ = 0;  ///< place of the call that is, or was, in running_[0]
  bool has_immediate_ = false;
  std::uint64_t announced_ = 0;
  std::uint64_t finished_ = 0;
  std::uint64_t long_calls_ = 0;  ///< number of calls that have begun their algorithm
  std::size_t settled_ = 0;       ///< number of settled calls at the front
  std::uint64_t pieces_ = 0;
  std::uint64_t done_ = 0;                ///< see Call::done
  SliceCounters* sleeping_on_ = nullptr;  ///< see fall_asleep()
  Clock::time_point now_;
  bool is_short_data_there_ = false;     ///< see prefault_short()
  std::uint64_t piece_bytes_there_ = 0;  ///< see prefault_pieces()
  Published published_;
  int idle_polls_ = 0;  ///< polls in which nothing moved, since the last tell()
  bool failed_ = false;
  std::array<Running, kCallsAhead> running_;
};

}  // namespace kolo::engine::shared_memory
