// CallBatch: many calls of a communicator that start together, the short ones as one.
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <vector>

#include "kolo/buffer.hpp"
#include "kolo/communicator.hpp"
#include "kolo/counts.hpp"
#include "kolo/reduction.hpp"
#include "kolo/work.hpp"

namespace kolo {

/// Collects calls, and starts them together: 200 short all_reduces then cost about as much as one that is 200
/// times as long. NCCL's ncclGroupStart() and ncclGroupEnd() are its like, and PyTorch's coalescing manager.
///
/// Short calls with the same collective, element type, reduction, root and options are one call of all their
/// data, which are copied before and after. So sums may be rounded in another order than one by one, but
/// alike on all ranks. Calls with counts, with a reduction of the caller's own, or of more than 32 KiB (4 KiB
/// if the ranks share a host's memory) start alone.
///
/// All ranks collect the same collectives in the same order; else they get a MismatchError, as for single
/// calls. Sends and receives are those of Communicator, and match single ones too. All receives are posted
/// before the first send, so no order of them can make ranks wait for each other.
///
/// The arguments are those of Communicator's asynchronous calls. Each function here checks them at once,
/// start() checks the algorithms. Both throw InvalidArgumentError with the number of the call, from 0, before
/// any call has started. Buffers are borrowed until the CallBatch is gone or cleared and its Works are done;
/// no call may use what another one writes. A timeout of a call's own counts if all calls that are one with
/// it have one: the longest.
///
/// It may be started again once its Works are done, with what is in the buffers then: that is cheaper than to
/// collect the calls again. One thread at a time uses a CallBatch. It may be destroyed before its Works are
/// done.
class CallBatch {
 public:
  /// Without calls. Throws InvalidArgumentError for a communicator without a group.
  explicit CallBatch(Communicator communicator);
  /// The other one may only be assigned to and destroyed afterwards.
  CallBatch(CallBatch&&) noexcept;
  CallBatch& operator=(CallBatch&&) noexcept;
  ~CallBatch();

  /// Each adds one call. See Communicator.
  void all_reduce(Buffer data, Reduction reduction = ReduceOp::sum, const CallOptions& options = {});
  void all_reduce(BorrowedConstBuffer in, Buffer out, Reduction reduction = ReduceOp::sum,
                  const CallOptions& options = {});
  void reduce_scatter(BorrowedConstBuffer in, Buffer out, Reduction reduction = ReduceOp::sum,
                      const Counts& counts = {}, const CallOptions& options = {});
  void all_gather(BorrowedConstBuffer in, Buffer out, const Counts& counts = {},
                  const CallOptions& options = {});
  void broadcast(Buffer data, int root, const CallOptions& options = {});
  void reduce(BorrowedConstBuffer in, Buffer out, int root, Reduction reduction = ReduceOp::sum,
              const CallOptions& options = {});
  void scatter(BorrowedConstBuffer in, Buffer out, int root, const Counts& counts = {},
               const CallOptions& options = {});
  void gather(BorrowedConstBuffer in, Buffer out, int root, const Counts& counts = {},
              const CallOptions& options = {});
  void all_to_all(BorrowedConstBuffer in, Buffer out, const Counts& send_counts = {},
                  const Counts& recv_counts = {}, const CallOptions& options = {});
  void all_to_all(Buffer data, const CallOptions& options = {});
  void scan(BorrowedConstBuffer in, Buffer out, Reduction reduction = ReduceOp::sum,
            const CallOptions& options = {});
  void send(BorrowedConstBuffer data, int peer, int tag = 0, std::chrono::nanoseconds timeout = {},
            void* stream = nullptr);
  void recv(Buffer data, int peer, int tag = 0, std::chrono::nanoseconds timeout = {},
            void* stream = nullptr);

  /// Number of calls.
  std::size_t size() const noexcept;
  /// Forgets all calls; those that are under way go on.
  void clear() noexcept;

  /// Starts all calls. Returns the Work of each, in their order; calls that are one share it. Throws
  /// InvalidArgumentError if calls of the start before are still under way.
  [[nodiscard]] std::vector<Work> start();
  /// Starts all calls and waits for them, as wait_all() does.
  void run();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace kolo
