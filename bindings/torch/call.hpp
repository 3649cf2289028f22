// Call: one collective of a process group, the tensors that it borrows, and what is left to do when it is
// done. Work: the same for PyTorch.
#pragma once

#include <atomic>
#include <chrono>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <c10/util/SmallVector.h>
#include <torch/csrc/distributed/c10d/Work.hpp>

#include "kolo/buffer.hpp"
#include "kolo/work.hpp"

namespace kolo::pytorch {

using Tensors = std::vector<at::Tensor>;

/// Tensors are seen in logical order. One that does not lie in memory so is copied before or after the call.
/// All are on the CPU, or on one device of CUDA. Each function that makes a buffer throws
/// std::invalid_argument for a tensor that kolo cannot use, and keeps the memory until the call is done.
class Call {
 public:
  /// `closed`: whether the group was destroyed, which ends wait() in all threads.
  /// `waits`: the thread that begins the call waits for it at once.
  Call(const char* name, std::shared_ptr<const std::atomic<bool>> closed, bool waits)
      : waits(waits), name_(name), closed_(std::move(closed)) {}

  /// The elements of a tensor.
  BorrowedConstBuffer input(const at::Tensor& tensor);
  std::vector<ConstBuffer> inputs(const Tensors& tensors);
  /// Memory for the results. They are part of result().
  Buffer output(const at::Tensor& tensor) { return written(tensor, false); }
  std::vector<Buffer> outputs(const Tensors& tensors);
  /// As output(), and holds the tensor's elements.
  Buffer in_out(const at::Tensor& tensor) { return written(tensor, true); }
  /// As in_out(), but of int64: `tensor` gets the sum there divided by `divisor`, rounded towards zero.
  Buffer in_out_divided(const at::Tensor& tensor, int divisor);
  /// A tensor that a step changes, of any layout: part of result().
  void changes(const at::Tensor& tensor);
  /// Runs `step` when all Works are done without an error.
  void at_end(std::function<void()> step) { steps_.push_back(std::move(step)); }

  /// For CallOptions: the stream that is current in this thread, of the device that the buffers are on.
  void* stream() const;

  /// Shows the call to torch.profiler, from here until the results are in place, with the shapes of the
  /// tensors that it has so far. Without a profiler it allocates nothing.
  void record();

  /// From here on the call has begun.
  void add(kolo::Work work) { works_.push_back(std::move(work)); }
  void add(const std::vector<kolo::Work>& works) { works_.append(works.begin(), works.end()); }
  /// This call ends after the other one, which has begun, and with its error.
  void add_all(const std::shared_ptr<Call>& other);

  /// Whether the results are in place, or the call has failed. Puts them there if they have come. Never
  /// blocks.
  bool done();
  /// The same, and does nothing.
  bool settled() const { return settled_.load(std::memory_order_acquire); }
  /// Once the Works are done: returns when the results are in place. Python's lock must not be held.
  void settle();
  /// Blocks until done(), driving progress; throws the call's error. Zero: no limit but kolo's. Ctrl-C ends
  /// it.
  void wait(std::chrono::milliseconds timeout);
  /// The same for at most `timeout`, without errors and signals.
  bool wait_quietly(std::chrono::nanoseconds timeout) noexcept;
  /// Why the call has failed: null, also while it runs.
  std::exception_ptr error() const { return settled() ? error_ : nullptr; }
  /// After done(), also of a receive that failed: -1.
  int source() const { return works_.empty() ? -1 : works_.front().source(); }
  const Tensors& result() const { return results_; }
  /// That of the tensors.
  at::Device device() const { return device_.value_or(at::kCPU); }
  /// True for the first that asks.
  bool is_told_first() { return !is_told_.exchange(true); }
  /// A send that is neither done nor given up: it must reach its peer.
  bool is_undelivered_send() { return is_send && !given_up_ && !done(); }

  /// Keeps the call until it is done. Results come into place then.
  static void finish_alone(const std::shared_ptr<Call>& call) noexcept;
  /// The call could not begin, or only a part of it: it keeps the memory of that part, and has no result.
  static void abandon(const std::shared_ptr<Call>& call) noexcept;
  /// Calls `callback` on a thread of kolo's when the call is done.
  static void then(const std::shared_ptr<Call>& call, std::function<void()> callback);

  static inline std::atomic<bool> process_ends{false};
  /// Never returns then but on the main thread: a daemon thread must not come back to an interpreter that
  /// ends, which would unwind it through functions that do not throw.
  static void stay_if_process_ends();

  const bool waits;
  bool takes_devices = true;  ///< false: its buffers are on the host, and tensors of devices are copied
  bool is_batch = false;      ///< of several calls, whose tensors are known only when it starts
  bool is_message = false;    ///< a send or a receive
  bool is_send = false;

 private:
  void check_device(const at::Tensor& tensor);
  void check(const at::Tensor& tensor);
  bool is_usable(const at::Tensor& tensor) const;
  at::Tensor usable(const at::Tensor& tensor) const;
  const at::Tensor& hold(at::Tensor tensor, bool reads);
  Buffer written(const at::Tensor& tensor, bool reads);
  void run_steps();
  static void queue(const std::shared_ptr<Call>& call, std::function<void()> callback);
  bool wait_for_works(std::chrono::nanoseconds timeout) noexcept;
  std::string awaited() const;
  void put_in_place();

  const char* const name_;
  const std::shared_ptr<const std::atomic<bool>> closed_;
  c10::SmallVector<at::Tensor, 2> held_;  // those that are read, then those that are only written
  std::size_t reads_ = 0;                 // of held_
  std::optional<at::Device> device_;      // of the first tensor
  c10::SmallVector<kolo::Work, 1> works_;
  std::vector<std::function<void()>> steps_;
  std::function<void()> recorded_;  // tells the profiler of the end; empty without one
  Tensors results_;
  // No lock: to release a tensor may take Python's, and its holder may ask whether the call is done.
  std::atomic<bool> has_settler_{false};  // one thread puts the results in place
  std::atomic<bool> settled_{false};
  std::atomic<bool> given_up_{false};
  std::atomic<bool> is_told_{false};
  std::exception_ptr error_;  // constant once the call has settled
};

/// Dropping it is safe: the call goes on, and its results come into place.
class Work final : public c10d::Work {
 public:
  Work(int rank, c10d::OpType type, std::shared_ptr<Call> call);
  ~Work() override;

  bool isCompleted() override { return call_->done(); }
  bool isSuccess() const override { return call_->done() && call_->error() == nullptr; }
  std::exception_ptr exception() const override { return call_->error(); }
  int sourceRank() const override { return call_->source(); }
  Tensors result() override { return call_->result(); }
  bool wait(std::chrono::milliseconds timeout) override;
  void synchronize() override { wait(kNoTimeout); }
  void abort() override;
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override;

 private:
  static void complete(Call& call, c10::ivalue::Future& future);

  const std::shared_ptr<Call> call_;
  c10::intrusive_ptr<c10::ivalue::Future> future_;
};

}  // namespace kolo::pytorch
