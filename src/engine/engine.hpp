// Engine: runs operations over the links of one process to its peers.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/deadline.hpp"
#include "base/home_process.hpp"
#include "engine/active_operations.hpp"
#include "engine/callbacks.hpp"
#include "engine/completion.hpp"
#include "engine/control.hpp"
#include "engine/driver.hpp"
#include "engine/executor.hpp"
#include "engine/failure_detector.hpp"
#include "engine/group.hpp"
#include "engine/operation.hpp"
#include "engine/peers.hpp"
#include "engine/recovery.hpp"
#include "engine/schedule_executor.hpp"
#include "engine/shared_memory_executor.hpp"
#include "kolo/timeline.hpp"
#include "observe/observer.hpp"

namespace kolo::engine {

struct EngineOptions {
  std::chrono::nanoseconds heartbeat{};  ///< a peer that is silent for so long is lost
  std::chrono::nanoseconds spin{};       ///< how long to poll before sleeping
  int ranks_a_core = 1;                  ///< where it is more, ranks yield between polls
  std::string (*describe)(const transport::Signature&) = nullptr;  ///< a call in words
  std::vector<std::string> hosts;  ///< host name of each rank, for messages; empty: all on one
  std::vector<std::unique_ptr<observe::Observer>> observers = {};
  std::string network = {};                 ///< Communicator::network()
  std::shared_ptr<Timeline> timeline = {};  ///< Communicator::timeline()
};

/// Its Driver decides which thread makes progress on the operations, answers pings and notices lost peers.
///
/// A failure of any link, a disagreement or a missed deadline ends every operation, here and, through an
/// `abort` message, on every other rank; the engine has then failed and starts nothing more.
class Engine final : private Driven,
                     private PeersListener,
                     private ExecutorListener,
                     public std::enable_shared_from_this<Engine> {
 public:
  /// `endpoints[r]` leads to rank r; the entry of `rank` itself is a SelfEndpoint.
  Engine(int rank, std::vector<std::unique_ptr<transport::Endpoint>> endpoints, EngineOptions options,
         OnDemand on_demand = {});
  /// The same, but a forked child's copy is never destroyed: its links belong to the parent, which still
  /// needs them, and its progress thread does not run in the child.
  static std::shared_ptr<Engine> make(int rank, std::vector<std::unique_ptr<transport::Endpoint>> endpoints,
                                      EngineOptions options, OnDemand on_demand);
  /// Says goodbye to the peers. Operations still in flight end with an error.
  ~Engine() override;

  int rank() const noexcept { return rank_; }
  int size() const noexcept { return peers_.size(); }
  const EngineOptions& options() const noexcept { return options_; }
  /// Thread-safe.
  std::string transport_to(int peer) const;

  /// Begins an operation. `waits_now`: the caller calls wait() next, so the progress thread is not woken.
  /// Then the result may be null: the call is over, without an error. An engine that has failed returns an
  /// operation that has failed already. Thread-safe.
  std::shared_ptr<Operation> start(const OperationSpec& spec, bool waits_now);
  /// For a call for which there was no memory to prepare it: ends all operations of this engine and of its
  /// peers, as a lack of memory in a running operation does. Returns the error. Thread-safe.
  Status end_without_memory();
  /// Ends all operations of this engine and of its peers with an error that blames this rank: "rank 1 WHAT".
  /// Thread-safe.
  void fail(Code code, const std::string& what);
  /// Whether nothing more will succeed. Thread-safe.
  bool has_failed() const {
    const auto lock = driver_.enter();
    return failure_.has_value();
  }
  /// Makes `operation`, which no executor runs, one of this engine's, until finish(): for callers it is like
  /// those that executors run. A failure of the engine does not end it. Thread-safe.
  void adopt(Operation& operation, const OperationSpec& spec);
  /// For what ranks do together without the engine: an operation that waits for all other ranks, and ends
  /// with the engine's failure, or unwatch(). No thread is woken for it: poll with test(). Thread-safe.
  std::shared_ptr<Operation> watch(const OperationSpec& spec);
  void unwatch(Operation& watch);
  /// `status`: that of the engine's failure counts, if there is one.
  void finish(const std::shared_ptr<Operation>& operation, Status status);
  /// Drives until the operation is done (true) or `deadline` has passed (false). Thread-safe.
  bool wait(const Operation& operation, const Deadline& deadline);
  /// Drives until one of the operations, which are this engine's, is done. Thread-safe.
  bool wait_any(std::span<const Operation* const> operations, const Deadline& deadline);
  /// Polls once, unless another thread drives; returns whether the operation is done. Thread-safe.
  bool test(const Operation& operation);
  /// Ranks of the communicator for which the operation waits. Thread-safe.
  std::vector<int> waiting_for(const Operation& operation);
  /// Signals `completion` when the operation is done, unless forget() comes first; meanwhile the progress
  /// thread drives. Returns false, and does nothing, if the operation is done already. Thread-safe.
  bool notify(Operation& operation, Completion& completion);
  void forget(Operation& operation, const Completion& completion);
  /// Ends a probe that has found nothing. Thread-safe.
  void give_up(Operation& probe);
  /// Calls `callback` once the operation is done, after the callbacks of those that were done before. Throws
  /// SystemError if the system has no more threads. Thread-safe.
  void then(std::shared_ptr<Operation> operation, Callbacks::Callback callback);

  /// --- For communicators: see Groups. ---
  Group* reserve(std::uint32_t context, std::uint32_t first_slot);
  void withdraw(Group& group);
  Group* meet(std::vector<int> peers);
  void open(Group& group, std::vector<int> peers);
  void share_memory(Group& group, int shared_cores);
  void close(Group& group);
  /// Whether this is the process that made the engine. A forked child's copy touches nothing.
  bool is_here() const { return home_.is_here(); }

  /// --- For shrink(): links carry recovery messages also when operations over them have failed. ---
  void send_recovery(int peer, std::span<const std::byte> bytes);
  /// Returns the next message from a peer for which `is_meant` is true, also one that came before this call.
  /// Other messages stay, for another communicator over the same links. Returns nothing if none comes within
  /// 20 ms or before the deadline. `awaited`: the peers whose messages are missing; it checks whether they
  /// are silent.
  std::optional<RecoveryMessage> receive_recovery(const std::function<bool(const RecoveryMessage&)>& is_meant,
                                                  const std::vector<int>& awaited, const Deadline& deadline);
  /// Whether such a message has come.
  bool has_recovery(const std::function<bool(const RecoveryMessage&)>& is_meant) const;
  /// See Peers::own_trouble().
  Status own_trouble() const;
  /// Whether no recovery message will come from this peer: it is lost, silent, unreachable, has left, or is
  /// blamed for a loss.
  bool is_gone(int peer) const;
  /// Whether this rank has seen the peer's process end or leave. Neither silence nor a cut connection shows
  /// that.
  bool has_seen_end(int peer) const;
  /// How often the connection to the peer was cut and dialled again: messages may have been lost with it.
  int relinks_to(int peer) const;
  /// Whether messages to the peer wait for a connection that may still be made.
  bool is_unconnected(int peer) const;
  /// Whether operations have failed because this peer was lost, or a silent one with its host.
  bool is_blamed(int peer) const;
  /// The name of the peer's host; empty if all ranks are on one.
  std::string host_of(int peer) const {
    return options_.hosts.empty() ? std::string() : options_.hosts[static_cast<std::size_t>(peer)];
  }
  /// Whether a link has ended within a message of this rank whose memory could not be read.
  bool has_cut_message() const;

  Counters counters() const;

 private:
  // engine.cpp: operations and messages. Callers hold the lock.
  Executor& executor_of(const OperationSpec& spec) {
    if (spec.team() != nullptr) return shared_memory_;
    return schedules_;
  }
  std::shared_ptr<Operation> acquire(const OperationSpec& spec, bool is_timed);
  void release(Operation& operation);
  void add_callbacks(const std::shared_ptr<Operation>& ended);
  Operation* find(std::uint32_t context, std::uint64_t sequence);
  void on_mismatch(transport::Link& link, const transport::Tag& tag, const transport::Signature& mine,
                   const transport::Signature& theirs) override;
  void on_unexpected(transport::Link& link, const transport::Tag& tag,
                     const transport::Signature& theirs) override;
  void on_control(transport::Link& link, std::uint32_t kind, std::span<const std::byte> payload) override;
  void on_arrived(Peer& peer) override { schedules_.on_arrived(peer.link.peer()); }
  void on_finished(Operation& operation) override;
  void on_disagreement(std::uint64_t number, const transport::Signature& mine, int peer,
                       const transport::Signature& theirs) override;

  // observing.cpp: what is counted and told to the observers.
  void observe_begin(const OperationSpec& spec);
  void observe_error(const OperationSpec& spec);
  void on_transferred(const OperationSpec& spec, bool sent, int peer, std::uint64_t bytes,
                      Clock::time_point posted) override;
  void observe_end(const Operation& operation);
  void observe_attempts(const Peer& peer);
  std::vector<int> awaited_peers() const;

  // progress.cpp: what the Driver drives.
  bool poll(bool system_calls) override;
  void tick() override;
  bool has_work() const override { return !active_.empty() || (!are_links_quiet() && peers_.want_write()); }
  std::optional<Clock::time_point> oldest_start() const override;
  std::uint64_t bytes_streamed() const override { return peers_.payload_on_sockets(); }
  bool shares_core(int core, cpu_set_t& taken) override { return peers_.shares_core(core, taken); }
  bool prepare_to_sleep() override;
  std::span<const std::uint32_t> sleep(int timeout_ms) override { return peers_.wait(timeout_ms); }
  void woken(std::span<const std::uint32_t> sources, Clock::time_point idle_since) override;
  bool can_nap() const override { return are_links_quiet() && shared_memory_.waits_alone(active_.size()); }
  bool prepare_to_nap() override;
  bool nap(std::chrono::nanoseconds longest) override { return shared_memory_.nap(longest); }
  bool poll_links(bool system_calls);
  bool are_links_quiet() const { return links_quiet_since_ != Clock::time_point{}; }
  void interrupt() override;
  void out_of_memory() override;

  // failure.cpp: what goes wrong.
  void record_failure(Failure failure, bool heard = false);
  void on_connected(Peer& peer, const Status& watched) override;
  void on_broken(Peer& peer) override;
  void on_failure(int blamed, const std::string& why) override;
  void on_no_memory() override;
  void on_throwing_reduction(const std::string& name, const std::string& what) override;
  void on_reduced() override;
  void propagate_failure();
  void leave();
  void end(Operation& operation, const Failure& failure);
  bool end_messages(int peer, const Failure& gone);
  void check_peers();
  void check_deadlines();
  WaitingCall waiting_call(Operation& operation) const;
  void send_pong(transport::Link& link, const Ping& ping);
  Status status_for(const Operation& operation, const Failure& failure) const;
  bool blames(int peer) const;
  bool is_lost(Peer& peer) const;
  std::string call_of(const Operation& operation) const;

  const int rank_;
  const HomeProcess home_;
  const EngineOptions options_;
  const bool is_timed_;  ///< an observer needs times
  MemoryPool memory_;
  Peers peers_;
  FailureDetector detector_;
  Mailbox mailbox_;
  Groups groups_;
  Backoff backoff_;
  Driver driver_;
  ScheduleExecutor schedules_;
  SharedMemoryExecutor shared_memory_;
  ActiveOperations active_;
  std::shared_ptr<Callbacks> callbacks_;  // from the first one on
  // Freed when there is no memory, since reporting that allocates.
  static constexpr std::size_t kReserveBytes = std::size_t{64} << 10;
  std::unique_ptr<std::byte[]> reserve_ = std::make_unique_for_overwrite<std::byte[]>(kReserveBytes);
  Counters counters_;
  std::vector<int> awaited_;  // while the driver sleeps, if it is observed
  /// When all links were polled and had nothing to write; since then only calls in shared memory have
  /// started. Zero if that is not so.
  Clock::time_point links_quiet_since_{};
  Clock::time_point next_check_{};
  Clock::time_point last_sign_{};  // when this rank last told its peers, unasked, that it lives
  bool has_told_of_slots_ = false;
  std::optional<Failure> pending_failure_;  // to be settled when no link is in the middle of a call
  bool pending_is_remote_ = false;          // another rank has reported it, or it is as certain
  std::optional<Failure> first_loss_;       // for which messages ended alone
  std::optional<Failure> failure_;
};

}  // namespace kolo::engine
