// Group: a process group of torch.distributed whose collectives kolo runs.
#pragma once

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <set>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "call.hpp"
#include "kolo/communicator.hpp"
#include "kolo/error.hpp"
#include "options.hpp"
#include "sparse.hpp"
#include "version.hpp"

namespace kolo::pytorch {

/// PyTorch has timeouts of 10,000 years, which nanoseconds cannot hold.
inline std::chrono::nanoseconds nanoseconds_of(std::chrono::milliseconds timeout) {
  return std::min<std::chrono::milliseconds>(timeout, std::chrono::hours(24 * 365 * 100));
}

/// A timeout that is not set is 0 or -1 ms: the group's.
template <typename Options>
CallOptions options_of(const Options& options, void* stream = nullptr) {
  CallOptions made;
  made.stream = stream;
  if (options.timeout.count() > 0) made.timeout = nanoseconds_of(options.timeout);
  made.waits_at_once = waits_at_once(options);
  return made;
}

/// The methods are those of PyTorch's base class. They begin a call and return its Work. Thread-safe, as far
/// as all ranks begin their calls in one order.
class Group final : public Base {
 public:
  using Timeout = std::chrono::milliseconds;
  using Started = c10::intrusive_ptr<c10d::Work>;
  using Lists = std::vector<Tensors>;
  using Splits = std::vector<std::int64_t>;

  /// Blocks until all ranks have come to the store; Ctrl-C ends that. `has_key`: the environment has the
  /// job's key. Else it comes through the store. `name`: in the names of timelines; the same on all ranks.
  /// `is_lazy`: the ranks come to reconfigure(), and `rank` and `size` mean nothing. Throws
  /// std::invalid_argument for options that no call could have. Python's lock must not be held.
  Group(const c10::intrusive_ptr<c10d::Store>& store, int rank, int size, bool has_key,
        const GroupOptions& options, std::string name, bool is_lazy = false);
  /// A part of another group.
  Group(Communicator communicator, const GroupOptions& options);
  /// As shutdown().
  ~Group() override;

  const std::string getBackendName() const override { return "kolo"; }
  void setSequenceNumberForGroup() override {}
  std::uint64_t getSequenceNumberForGroup() override { return sequence_; }

  Started broadcast(Tensors& data, const c10d::BroadcastOptions& options) override;
  Started allreduce(Tensors& data, const c10d::AllreduceOptions& options) override;
  Started allreduce_coalesced(Tensors& data, const c10d::AllreduceCoalescedOptions& options) override;
  Started reduce(Tensors& data, const c10d::ReduceOptions& options) override;
  Started allgather(Lists& out, Tensors& in, const c10d::AllgatherOptions& options) override;
  Started _allgather_base(at::Tensor& out, at::Tensor& in, const c10d::AllgatherOptions& options) override;
  Started allgather_coalesced(Lists& out, Tensors& in, const c10d::AllgatherOptions& options) override;
  Started gather(Lists& out, Tensors& in, const c10d::GatherOptions& options) override;
  Started scatter(Tensors& out, Lists& in, const c10d::ScatterOptions& options) override;
  Started reduce_scatter(Tensors& out, Lists& in, const c10d::ReduceScatterOptions& options) override;
  Started _reduce_scatter_base(at::Tensor& out, at::Tensor& in,
                               const c10d::ReduceScatterOptions& options) override;
  Started alltoall_base(at::Tensor& out, at::Tensor& in, Splits& out_splits, Splits& in_splits,
                        const c10d::AllToAllOptions& options) override;
  Started alltoall(Tensors& out, Tensors& in, const c10d::AllToAllOptions& options) override;
  Started send(Tensors& data, int to, int tag) override;
  Started recv(Tensors& data, int from, int tag) override;
  Started recvAnysource(Tensors& data, int tag) override;
  /// Completes after all that this rank has begun before on the group.
  Started barrier(const c10d::BarrierOptions& options) override;
  void monitoredBarrier(const c10d::BarrierOptions& options, bool waits_for_all) override;

  // Virtual in later versions only.
  /// Of COO tensors: the sum alone.
  Started allreduce_sparse(Tensors& data, const c10d::AllreduceOptions& options);
  Started allgather_into_tensor_coalesced(Tensors& out, Tensors& in, const c10d::AllgatherOptions& options);
  Started reduce_scatter_tensor_coalesced(Tensors& out, Tensors& in,
                                          const c10d::ReduceScatterOptions& options);
  bool supportsCoalescing() const { return true; }
  /// The calls until endCoalescing() have one Work more, which it returns.
  void startCoalescing();
  Started endCoalescing();
  void setTimeout(Timeout timeout);
  /// Ends the calls of all ranks, those that other threads wait for too.
  void abort();
  /// Begins a collective by begin(communicator, options), which returns its Work, and waits for it without a
  /// Work of PyTorch's. `in` and `out` are kept until it is done. Python's lock must not be held.
  template <typename Begin>
  void block(const char* name, const at::Tensor& in, const at::Tensor& out, const Begin& begin) {
    CallOptions options;
    options.waits_at_once = true;
    Communicator communicator = this->communicator();
    try {
      const kolo::Work work = begin(communicator, options);
      ++sequence_;
      wait_for(work, name, in, out);
    } catch (const InvalidArgumentError& error) {
      throw std::invalid_argument(error.what());  // a ValueError in Python
    }
  }
  /// With the group's algorithm, and its wire format if the call can have one and TCP carries it.
  template <typename Asked>
  CallOptions all_reduce_options(const Asked& options, const at::Tensor& tensor,
                                 void* stream = nullptr) const;
  bool is_closed() const { return *closed_; }
  /// Whether this rank shares a host's memory with another rank.
  bool shares_host() const;
  /// Ends this rank's calls, after its sends have reached their peers, for at most `patience`. Later calls
  /// throw. Python's lock must not be held.
  void shutdown(Timeout patience);
  void shutdown();
  c10::intrusive_ptr<Base::Options> getBackendOptions() { return options_; }
  bool supportsSplitting() const { return kBackendsSplit<Base>; }
  /// All ranks call it; those that are not among `ranks` get null. The new group has the links of this one,
  /// so that a failure of one is a failure of both.
  c10::intrusive_ptr<Base> split(const c10::intrusive_ptr<c10d::Store>& store, const std::vector<int>& ranks,
                                 const c10::intrusive_ptr<Base::Options>& options);
  bool supportsShrinking() const { return true; }
  /// The ranks that stay call it: also after a failure, which `flags` other than 0 bring about.
  c10::intrusive_ptr<Base> shrink(const std::vector<std::int64_t>& excluded, int flags,
                                  const c10::intrusive_ptr<Base::Options>& options);

#ifdef C10D_BACKEND_HAS_RECONFIGURE
  bool supportsReconfigure() const override {
    return store_ != nullptr;
  }
  /// Unlike that of any other backend. The addresses of its rank come through the group's store.
  c10d::ReconfigureHandle get_reconfigure_handle() const override;
  /// All that are to be ranks call it, newcomers too. Ends the calls of the ranks before, blocks until all
  /// have come to the store, and returns a Work that is done. After an error, the group has no ranks until
  /// the next reconfigure().
  Started reconfigure(const c10d::ReconfigureOptions& options) override;
#endif

  /// shutdown() of all groups of the process.
  static void shutdown_all(bool waits_for_sends);

 private:
  using Pending = std::vector<std::weak_ptr<Call>>;

  template <typename Begin>
  Started start(c10d::OpType type, const std::shared_ptr<Call>& call, const Begin& begin);
  template <typename Add>
  Started together(c10d::OpType type, const char* name, const Tensors& out, const Tensors& in,
                   const Add& add);
  void wait_for(const kolo::Work& work, const char* name, const at::Tensor& in, const at::Tensor& out) const;
  void meet(const c10::intrusive_ptr<c10d::Store>& store, Timeout timeout);
  void end_calls(Timeout patience);
  void write_timeline(const Timeline& timeline) const;
  static bool is_linked_by(const Communicator& communicator, std::string_view transport);
  void enrol();
  c10::intrusive_ptr<Base> part(Communicator communicator,
                                const c10::intrusive_ptr<Base::Options>& options) const;
  Communicator communicator() const;
  void sweep();

  std::shared_ptr<Call> make_call(const char* name, bool waits = false) const {
    return std::make_shared<Call>(name, closed_, waits);
  }

  const c10::intrusive_ptr<c10d::Store> store_ = {};  // null: a part of another group
  const bool has_key_ = false;
  std::shared_ptr<std::atomic<bool>> closed_ = std::make_shared<std::atomic<bool>>(false);
  mutable std::mutex mutex_;
  Communicator communicator_;  // without a group after shutdown(), and before reconfigure() if that makes it
  SparseSums sparse_;
  Pending pending_;                  // calls that may not be done
  std::shared_ptr<Call> coalesced_;  // between startCoalescing() and endCoalescing(): ends after all calls
  std::string last_part_;            // the name of the part to which split() was asked last
  std::size_t sweep_at_ = 64;        // length at which calls that are done leave pending_
  std::atomic<std::uint64_t> sequence_{0};  // collectives begun
  const c10::intrusive_ptr<GroupOptions> options_;
  const std::string name_;
  const std::int64_t process_ = ::getpid();
  std::shared_ptr<Timeline> timeline_;  // null: none, or it was written
  bool has_network_ = false;            // TCP links this rank to another one
  mutable std::string handle_;          // empty before get_reconfigure_handle()
  std::set<std::int64_t> uuids_;        // with which it was reconfigured
};

template <typename Asked>
CallOptions Group::all_reduce_options(const Asked& options, const at::Tensor& tensor, void* stream) const {
  CallOptions made = options_of(options, stream);
  made.algorithm = options_->algorithm;
  const bool averages = options.reduceOp == c10d::ReduceOp::SUM || options.reduceOp == c10d::ReduceOp::AVG;
  if (has_network_ && averages && tensor.scalar_type() == at::kFloat) made.wire = options_->wire;
  return made;
}

template <typename Begin>
Group::Started Group::start(c10d::OpType type, const std::shared_ptr<Call>& call, const Begin& begin) {
  try {
    Communicator communicator = this->communicator();
    if (!call->is_batch) call->record();
    call->add(begin(communicator));
  } catch (const InvalidArgumentError& error) {
    Call::abandon(call);
    throw std::invalid_argument(error.what());  // a ValueError in Python
  } catch (...) {
    Call::abandon(call);
    throw;
  }
  if (!call->is_message) ++sequence_;
  if (call->waits) {
    try {
      call->wait(kNoTimeout);
    } catch (...) {
      Call::finish_alone(call);
      throw;
    }
    return {};
  }
  {
    const std::lock_guard lock(mutex_);
    if (pending_.size() >= sweep_at_) sweep();
    pending_.push_back(call);
    if (coalesced_ != nullptr) coalesced_->add_all(call);
  }
  return c10::make_intrusive<Work>(rank_, type, call);
}

}  // namespace kolo::pytorch
