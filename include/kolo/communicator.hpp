// Communicator: a group of ranks and the collectives between them.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kolo/buffer.hpp"
#include "kolo/buffer_list.hpp"
#include "kolo/counts.hpp"
#include "kolo/error.hpp"
#include "kolo/estimate.hpp"
#include "kolo/name.hpp"
#include "kolo/reduction.hpp"
#include "kolo/store.hpp"
#include "kolo/timeline.hpp"
#include "kolo/wire.hpp"
#include "kolo/work.hpp"

namespace kolo {

namespace selection {
struct CostModel;
struct Topology;
}  // namespace selection

/// How a communicator is made.
struct Options {
  /// Longest time without any progress in an operation, and longest rendezvous. Zero: KOLO_TIMEOUT. Ranks
  /// need not agree on it.
  std::chrono::nanoseconds timeout{0};
  /// Transports allowed, best first, comma-separated: "shm,tcp". Empty: KOLO_TRANSPORTS.
  std::string transports = {};
  /// Where operations are recorded; may be null.
  std::shared_ptr<Timeline> timeline = nullptr;
  /// Measure what messages cost, unless a tuning table tells: kolo chooses algorithms by these costs. Takes
  /// some milliseconds on idle cores. A group that only sends and receives needs no costs. The same on all
  /// ranks.
  bool measure_costs = true;
  /// The job's key, which every connection proves that it knows: the same on all ranks, 16 characters or
  /// more. Empty: KOLO_KEY or KOLO_KEY_FILE. shrink() and split() keep it; it is never logged.
  std::string key = {};
  /// For join(): the program with its model and settings, and which of the job's processes this is ("host-3
  /// slot 1"), in words without line ends. A newcomer with another `program` than the group's is refused, as
  /// is one whose `process` the group has. An empty `process` is never compared.
  std::string program = {};
  std::string process = {};
};

/// Which groups regroup() may make. `least` and `most` are the same on all ranks.
struct RegroupOptions {
  int least = 1;  ///< with fewer ranks it throws QuorumError
  int most = 0;   ///< more newcomers wait on; 0: no limit
  /// Ranks of this communicator that are known to have ended, from a launcher for example.
  std::vector<int> ended = {};
  /// Serves a new store, on the lowest survivor, if the one before has failed with its rank. Null: no
  /// newcomer joins any more.
  std::function<std::shared_ptr<Store>()> serve = nullptr;
};

/// How one call is made. The ranks of a call must agree on all of it but the stream and the timeout.
struct CallOptions {
  Name algorithm{};                 ///< A registered name; empty: KOLO_ALGORITHM, else kolo's choice.
  std::uint64_t segment_bytes = 0;  ///< 0: KOLO_SEGMENT_BYTES.
  /// The format on the wire. An all_reduce that sums or averages float32 takes any format; other calls take
  /// only `native`. Not set: KOLO_WIRE, if that fits, kolo chooses the algorithm, and not all ranks share one
  /// host's memory; else `native`.
  std::optional<Wire> wire{};
  /// What the call is for ("gradients of step"), and which of them (7): ranks that call for different
  /// purposes get a MismatchError with both, as if their counts differed. Empty: any.
  Name label{};
  std::uint32_t label_number = 0;
  /// For buffers on a device: the stream (cudaStream_t) whose earlier work the call waits for before it uses
  /// them. Null: the device's default stream. Calls on the host's memory take only null.
  void* stream = nullptr;
  /// Longest time without any progress in the call. Zero: Communicator::timeout().
  std::chrono::nanoseconds timeout{0};
  /// Of an asynchronous form: the caller waits at once, as the blocking form does, but can wait in parts. The
  /// call costs as little; until the caller waits or calls then(), no thread may make progress for it. Its
  /// Work may be an invalid one, which is done.
  bool waits_at_once = false;
};

/// What went over the links of one rank, in payload bytes of collectives, sends and receives (no headers, no
/// rendezvous).
struct Counters {
  std::uint64_t bytes_sent = 0;         ///< payload to other ranks
  std::uint64_t bytes_received = 0;     ///< payload from other ranks
  std::uint64_t messages_sent = 0;      ///< messages to other ranks
  std::uint64_t messages_received = 0;  ///< messages from other ranks
  std::uint64_t operations = 0;         ///< calls begun, also those that need no message
};

/// For probe(): whichever rank has sent.
inline constexpr int kAnyRank = -1;

/// A message that has come, or has begun to come.
struct ProbedMessage {
  int source = kAnyRank;       ///< the rank that sent it, in the communicator's numbering
  DType dtype = DType::uint8;  ///< the type of its elements
  std::uint64_t count = 0;     ///< number of its elements
};

/// A group of ranks. Every rank must make the same collective calls in the same order; calls on different
/// communicators and send/recv are independent of each other. A copy refers to the same group.
///
/// Thread-safe, as far as the order of calls stays the same on all ranks. Each `x_async` returns at once and
/// borrows its buffers until the Work is done; `x` is x_async(...).wait().
///
/// Arguments that cannot be right throw InvalidArgumentError before any byte moves and take no sequence
/// number: null with a count, a rank out of range, overlapping in and out that are not the same, element
/// types or counts that do not fit together, an unknown algorithm. A later failure ends the operation on
/// every rank, with an error that names the rank to blame, if one is known. Every later call on this
/// communicator then ends with the same error.
///
/// A communicator belongs to the process that made it. In a forked child it may be destroyed, and returns its
/// rank, size and timeout. All other calls throw InvalidArgumentError there, and do not harm the parent. The
/// child may create communicators of its own.
///
/// In place: pass the one-buffer form, or the same memory as the documentation of the call says.
class Communicator {
 public:
  /// No group; only valid(), assignment and destruction are allowed.
  Communicator() = default;

  /// Joins the job that the environment describes (see launch_from_environment()). Blocks until all ranks
  /// have come; RendezvousError names those that have not. If KOLO_JOIN says so, it is a join(), in the store
  /// that the environment names.
  [[nodiscard]] static Communicator create(const Options& options = {});
  /// Joins as rank `rank` of `size` ranks that meet in `store`. It may be a Store of the caller's own, whose
  /// methods are then called on other threads too: so a method that does not return in time ends in a
  /// RendezvousError, as does one that throws, or a value that kolo has not put there.
  ///
  /// One store serves one communicator after another, also if ranks have died while they met: each call of
  /// rank 0 begins a new round. For several communicators at once, use make_prefix_store(). A rank comes into
  /// the newest round in which its number has not come yet, else into the next. So a rank that was started
  /// again while the old round goes on ends that for all, because it might be a second process of that
  /// number: start all ranks again, or none.
  [[nodiscard]] static Communicator create(std::shared_ptr<Store> store, int rank, int size,
                                           const Options& options = {});

  /// Joins a group that is there already, as a newcomer: waits in `store` until the group takes it, at its
  /// next regroup() with this store. Throws MismatchError if the group refuses it, and RendezvousError if no
  /// group has taken it within Options::timeout.
  [[nodiscard]] static Communicator join(std::shared_ptr<Store> store, const Options& options = {});
  /// The same, for a store that may end with its rank: tries "tcp://host:port" and "file:///path" in turn,
  /// ten seconds in each, until a group has taken it.
  [[nodiscard]] static Communicator join(const std::vector<std::string>& stores, const Options& options = {});

  /// Whether this refers to a group.
  bool valid() const noexcept { return state_ != nullptr; }
  /// Whether both refer to the same group. Copies of one communicator are equal; so are communicators without
  /// a group.
  bool operator==(const Communicator&) const noexcept = default;
  /// This process's number in the group, from 0.
  int rank() const;
  /// Number of ranks.
  int size() const;
  /// The transport that links this rank to `peer`: "shm", "tcp", "inproc"; "self" for its own rank.
  std::string transport_to(int peer) const;
  /// Where ranks of other hosts find this one, and why there, for messages: "10.0.0.1:4000: eth0, which leads
  /// to the store at a". Empty if no link goes through tcp.
  std::string network() const;
  /// Where calls are recorded, for spans of the program's own: Options::timeline, else what KOLO_TIMELINE has
  /// brought about; null if there is neither. split() keeps it.
  const std::shared_ptr<Timeline>& timeline() const;
  /// What went over this rank's links so far.
  Counters counters() const;
  /// The longest time without any progress in an operation (Options::timeout or KOLO_TIMEOUT).
  std::chrono::nanoseconds timeout() const;
  /// Changes that for the operations that start from now on, and for shrink(), in all copies of this
  /// communicator; those that split() has made keep theirs. Whichever rank's time is over first ends the
  /// operation on every rank, as any failure does, with a TimeoutError that names the rank to blame: after
  /// some hundredths of a second more, or some tenths if ranks do not answer or wait in other calls. So a
  /// timeout of less than 0.1 s may last several times as long. Thread-safe. Throws InvalidArgumentError
  /// unless it is positive.
  void set_timeout(std::chrono::nanoseconds timeout);

  /// The time that one call of `collective` ("all_reduce", "broadcast", ...) is expected to take, with the
  /// algorithm that kolo would choose; see Estimate. `bytes`: the whole data in the ranks' memory, as float32
  /// (all parts, if each rank has one; for all_to_all what one rank sends); 0 for a barrier. `options` as for
  /// the call; if they name an algorithm, the estimate is for that one. With KOLO_WIRE, pass Wire::native for
  /// other element types.
  ///
  /// Sends nothing, waits for no other rank or call, and changes no later choice. Works after a failure too.
  /// Thread-safe. Throws InvalidArgumentError for an unknown collective, and for options that the call
  /// refuses.
  Estimate estimate(std::string_view collective, std::uint64_t bytes, const CallOptions& options = {}) const;

  /// Every rank ends with the reduction of all contributions, with the same bits.
  Work all_reduce_async(Buffer data, Reduction reduction = ReduceOp::sum, const CallOptions& options = {});
  Work all_reduce_async(BorrowedConstBuffer in, Buffer out, Reduction reduction = ReduceOp::sum,
                        const CallOptions& options = {});
  void all_reduce(Buffer data, Reduction reduction = ReduceOp::sum, const CallOptions& options = {});
  void all_reduce(ConstBuffer in, Buffer out, Reduction reduction = ReduceOp::sum,
                  const CallOptions& options = {});
  /// The same for one number: returns the reduction of the ranks' values.
  template <Element T>
  [[nodiscard]] T all_reduce(T value, Reduction reduction = ReduceOp::sum, const CallOptions& options = {}) {
    all_reduce(Buffer(&value, 1, dtype_of<T>), std::move(reduction), options);
    return value;
  }

  /// `in` holds one part per rank (counts[r] elements for rank r); rank r ends with part r reduced in `out`.
  /// In place: `out` is this rank's part of `in`; the other parts of `in` are only read.
  Work reduce_scatter_async(BorrowedConstBuffer in, Buffer out, Reduction reduction = ReduceOp::sum,
                            const Counts& counts = {}, const CallOptions& options = {});
  void reduce_scatter(ConstBuffer in, Buffer out, Reduction reduction = ReduceOp::sum,
                      const Counts& counts = {}, const CallOptions& options = {});
  /// The same, with the parts of `in` in a buffer each: `in[r]` is this rank's contribution to the part of
  /// rank r. The ranks agree on the lengths. In place: `out` is this rank's buffer of `in`.
  Work reduce_scatter_async(const BorrowedConstBufferList& in, Buffer out,
                            Reduction reduction = ReduceOp::sum, const CallOptions& options = {});
  void reduce_scatter(const ConstBufferList& in, Buffer out, Reduction reduction = ReduceOp::sum,
                      const CallOptions& options = {});

  /// Every rank ends with the concatenation of all `in`s in `out`. In place: `in` is this rank's part of
  /// `out`.
  Work all_gather_async(BorrowedConstBuffer in, Buffer out, const Counts& counts = {},
                        const CallOptions& options = {});
  void all_gather(ConstBuffer in, Buffer out, const Counts& counts = {}, const CallOptions& options = {});
  /// The same, with a buffer for each rank's part: `out[r]` is as long as `in` of rank r. Some ranks may list
  /// the parts while other ranks have them in one buffer; the same is true of all calls with lists. In place:
  /// `in` is this rank's buffer of `out`.
  Work all_gather_async(BorrowedConstBuffer in, const BufferList& out, const CallOptions& options = {});
  void all_gather(ConstBuffer in, const BufferList& out, const CallOptions& options = {});

  /// Every rank ends with the root's data.
  Work broadcast_async(Buffer data, int root, const CallOptions& options = {});
  void broadcast(Buffer data, int root, const CallOptions& options = {});

  /// The root ends with the reduction in `out`; elsewhere `out` is ignored. In place: `in` is `out` at the
  /// root.
  Work reduce_async(BorrowedConstBuffer in, Buffer out, int root, Reduction reduction = ReduceOp::sum,
                    const CallOptions& options = {});
  void reduce(ConstBuffer in, Buffer out, int root, Reduction reduction = ReduceOp::sum,
              const CallOptions& options = {});

  /// Rank r ends with part r of the root's `in`, which is ignored elsewhere. In place at the root: `out` is
  /// its part of `in`.
  Work scatter_async(BorrowedConstBuffer in, Buffer out, int root, const Counts& counts = {},
                     const CallOptions& options = {});
  void scatter(ConstBuffer in, Buffer out, int root, const Counts& counts = {},
               const CallOptions& options = {});
  /// The same, with the parts of the root's `in` in a buffer each. Only the root needs a list, and no counts;
  /// the other ranks pass the counts of all parts if these are not equal, and perhaps the form with one
  /// buffer.
  Work scatter_async(const BorrowedConstBufferList& in, Buffer out, int root, const Counts& counts = {},
                     const CallOptions& options = {});
  void scatter(const ConstBufferList& in, Buffer out, int root, const Counts& counts = {},
               const CallOptions& options = {});

  /// The root ends with the concatenation of all `in`s in `out`, which is ignored elsewhere. In place at the
  /// root: `in` is its part of `out`.
  Work gather_async(BorrowedConstBuffer in, Buffer out, int root, const Counts& counts = {},
                    const CallOptions& options = {});
  void gather(ConstBuffer in, Buffer out, int root, const Counts& counts = {},
              const CallOptions& options = {});
  /// The same, with a buffer at the root for each rank's part: see scatter() for the other ranks' arguments.
  Work gather_async(BorrowedConstBuffer in, const BufferList& out, int root, const Counts& counts = {},
                    const CallOptions& options = {});
  void gather(ConstBuffer in, const BufferList& out, int root, const Counts& counts = {},
              const CallOptions& options = {});

  /// Rank r gets in part s of `out` what rank s has in part r of `in`. send_counts[r] elements go to rank r,
  /// recv_counts[s] come from rank s; both empty: equal parts. `in` and `out` must not overlap; the
  /// one-buffer form exchanges equal parts in place.
  Work all_to_all_async(BorrowedConstBuffer in, Buffer out, const Counts& send_counts = {},
                        const Counts& recv_counts = {}, const CallOptions& options = {});
  Work all_to_all_async(Buffer data, const CallOptions& options = {});
  void all_to_all(ConstBuffer in, Buffer out, const Counts& send_counts = {}, const Counts& recv_counts = {},
                  const CallOptions& options = {});
  void all_to_all(Buffer data, const CallOptions& options = {});
  /// The same, with a buffer for each part: `in[r]` goes to rank r, `out[s]` comes from rank s, and is as
  /// long as rank s's `in` for this rank. A rank with one buffer passes counts, if other ranks list their
  /// parts.
  Work all_to_all_async(const BorrowedConstBufferList& in, const BufferList& out,
                        const CallOptions& options = {});
  void all_to_all(const ConstBufferList& in, const BufferList& out, const CallOptions& options = {});

  /// Rank r ends with the reduction of the contributions of ranks 0 to r, in this order (MPI_Scan). Any
  /// operation but average. In place: `out` is `in`.
  Work scan_async(BorrowedConstBuffer in, Buffer out, Reduction reduction = ReduceOp::sum,
                  const CallOptions& options = {});
  void scan(ConstBuffer in, Buffer out, Reduction reduction = ReduceOp::sum, const CallOptions& options = {});

  /// Returns when every rank has called it.
  Work barrier_async(const CallOptions& options = {});
  void barrier(const CallOptions& options = {});

  /// Point to point: the k-th send to a peer with a tag matches the peer's k-th recv with that tag. The
  /// counts must be equal. `tag` is 0 to 2^31 - 1. send completes when `data` may be overwritten. That may
  /// need the peer's recv: within a host's memory always beyond 8 KiB; else only if as much as the connection
  /// holds, or 16 MiB, already waits for its recv. A rank may send to itself if the send or the recv is
  /// asynchronous. Each tag that was ever used with a peer takes some memory: use few. `timeout` and
  /// `stream`: as in CallOptions; a call on a device's memory returns when the device has done what the
  /// stream holds. The other side's memory may be the host's.
  Work send_async(BorrowedConstBuffer data, int peer, int tag = 0, std::chrono::nanoseconds timeout = {},
                  void* stream = nullptr);
  void send(ConstBuffer data, int peer, int tag = 0, std::chrono::nanoseconds timeout = {},
            void* stream = nullptr);
  Work recv_async(Buffer data, int peer, int tag = 0, std::chrono::nanoseconds timeout = {},
                  void* stream = nullptr);
  void recv(Buffer data, int peer, int tag = 0, std::chrono::nanoseconds timeout = {},
            void* stream = nullptr);
  /// Receives from whichever rank sends first with this tag, this rank included: Work::source(), or the
  /// result, is that rank. Messages of one rank are received in their order. Receives from any rank are
  /// served in the order of their calls; a recv that names its rank takes the next message of that rank, even
  /// if an earlier recv_any still waits. Fails with a PeerLostError that names a rank once all other ranks
  /// have left, and with a TimeoutError that blames no rank if all answer and none sends.
  Work recv_any_async(Buffer data, int tag = 0, std::chrono::nanoseconds timeout = {},
                      void* stream = nullptr);
  int recv_any(Buffer data, int tag = 0, std::chrono::nanoseconds timeout = {}, void* stream = nullptr);

  /// Sends to one rank and receives from another, or from the same one, at once: ranks that pass data around
  /// a ring do not wait for each other. Each half matches any send and recv. The asynchronous form returns
  /// both Works, the send's first, for wait_all(). `in` and `out` must not overlap.
  [[nodiscard]] std::array<Work, 2> sendrecv_async(BorrowedConstBuffer out, int to, Buffer in, int from,
                                                   int tag = 0, std::chrono::nanoseconds timeout = {},
                                                   void* stream = nullptr);
  void sendrecv(ConstBuffer out, int to, Buffer in, int from, int tag = 0,
                std::chrono::nanoseconds timeout = {}, void* stream = nullptr);

  /// Blocks until a message with this tag has come from `peer`, or kAnyRank, that no recv has taken or waits
  /// for. The message stays: the next recv from its source takes it. If several threads receive with one tag,
  /// another may take it before. Fails as a recv does.
  [[nodiscard]] ProbedMessage probe(int peer, int tag = 0);
  /// The same for at most `timeout`, after which nothing is returned and nothing has failed. Zero: looks
  /// once.
  [[nodiscard]] std::optional<ProbedMessage> probe(int peer, int tag, std::chrono::nanoseconds timeout);

  /// Collective: one new communicator per color, ranks ordered by (key, old rank). A negative color gets an
  /// invalid Communicator. The new one shares the links of this one.
  [[nodiscard]] Communicator split(int color, int key = 0);
  /// Collective over this communicator: the listed ranks, in that order, form a new one; all other ranks get
  /// an invalid Communicator. Every rank passes the same list. If lists differ, all ranks throw a
  /// MismatchError that says which ranks passed which, and this communicator stays usable.
  [[nodiscard]] Communicator subgroup(std::span<const int> ranks);
  /// As subgroup(), but only the listed ranks call it, and this rank must be one of them
  /// (MPI_Comm_create_group). They agree over the links of this communicator, so they need no store; ranks
  /// without a communicator in common form one by create(), in a store. Several threads may create groups at
  /// once, in any order, but not of the same ranks. If the members pass these ranks in different orders, all
  /// throw a MismatchError and this communicator stays usable. A member that does not call it, or lists other
  /// ranks, is named in a TimeoutError, which ends all operations of these links.
  [[nodiscard]] Communicator create_group(std::span<const int> ranks);

  /// Ends all operations of this communicator, and of communicators that share its links, on every rank, with
  /// an AbortedError that names this rank and gives `reason`. This ends operations that are in flight on any
  /// rank, even if they are over on this one, and all later ones. Returns as soon as this rank's own
  /// operations have ended. Thread-safe, also while other threads wait. After a failure it only ends a
  /// shrink() of this rank in another thread. If several ranks abort at once, the error may name any of them.
  /// No rank is dead, so shrink() keeps all of them.
  void abort(std::string_view reason);

  /// The label of collectives from now on that have none of their own, in all copies of this communicator:
  /// see CallOptions::label. Thread-safe; all ranks must do it between the same calls. Empty: none.
  void set_label(std::string_view label, std::uint32_t number);

  /// After a failure: makes a new communicator of the surviving ranks, in their old order, with links of its
  /// own. Every survivor calls it, once it has got its error. Lost ranks are left out, and so is a rank that
  /// does not call it within the communicator's timeout. All ranks that return agree on the members; if more
  /// ranks die meanwhile, they agree again. Operations of this communicator that are still in flight should
  /// have ended. Takes some milliseconds once all have called. Throws PeerLostError if the other ranks have
  /// taken this very rank for dead and gone on. Whenever it throws, the other ranks go on without this one,
  /// as where no descriptor is left for new connections (SystemError). (Two halves of a network that has been
  /// cut go on as two communicators. A program that must not do that compares size() with the old one.)
  [[nodiscard]] Communicator shrink();

  /// As shrink(), with newcomers: those that wait in `store` by join() get the numbers behind the survivors'.
  /// All ranks call it, after a failure or between two calls. Only the store of the lowest survivor is used;
  /// null: that of the last regroup() or create(). A newcomer that fails meanwhile is left out, and so are
  /// all newcomers then, which wait on.
  ///
  /// Two halves of a cut network do not both go on: throws QuorumError unless the survivors are more than
  /// half of the last group's ranks, or exactly half and the lowest of these ranks is one of them. Ranks do
  /// not count whose end a survivor has seen (its living host refuses connections) or knows from
  /// RegroupOptions::ended. A silent rank does, since it may live. Other errors: as shrink().
  [[nodiscard]] Communicator regroup(std::shared_ptr<Store> store = nullptr,
                                     const RegroupOptions& options = {});
  /// Whether a newcomer waits in the store of the last regroup() or create(). Only rank 0 knows, which has a
  /// thread look; it is false elsewhere. Ranks agree on when to regroup() by an all_reduce() of it, now and
  /// then. Does not block.
  bool has_newcomers() const;

 private:
  // For kolo's own tools. The topology lives as long as the communicator, and may not be asked for while that
  // is made. Costs are measured by all ranks together, in milliseconds on fast links; all get the same
  // result.
  friend const selection::Topology& situation_of(const Communicator&);
  friend selection::CostModel measure_costs(Communicator&);
  friend class CallBatch;
  struct State;
  explicit Communicator(std::shared_ptr<State> state) : state_(std::move(state)) {}
  const State& known() const;
  State& state() const;
  Communicator divide(int color, int key, const std::vector<int>* listed);
  std::shared_ptr<State> state_;
};

}  // namespace kolo
