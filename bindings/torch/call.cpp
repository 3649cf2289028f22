#include "call.hpp"

#include <unistd.h>

#include <algorithm>
#include <stdexcept>
#include <string>
#include <thread>

#include <ATen/ATen.h>
#include <ATen/MemoryOverlap.h>
#include <ATen/ThreadLocalState.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/jit_type.h>
#include <ATen/record_function.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include "interrupt.hpp"
#include "kolo/error.hpp"
#include "kolo/trouble.hpp"
#include "tensors.hpp"
#include "version.hpp"

namespace kolo::pytorch {
namespace {

using Clock = std::chrono::steady_clock;

/// Copies elements in logical order. No gradient and no version counter sees it, as of all that kolo writes.
void assign(const at::Tensor& target, const at::Tensor& source) {
  const at::AutoDispatchBelowADInplaceOrView guard;
  target.copy_(source);
}

/// While it lives, this thread's copies and events of a GPU are on a stream of their own, behind no work of
/// the caller's.
struct OwnStream {
  explicit OwnStream(at::Device device) {
    if (device.is_cuda())
      guard.reset_stream(c10::impl::VirtualGuardImpl(device.type()).getStreamFromGlobalPool(device));
  }
  c10::OptionalStreamGuard guard;
};

/// On a thread that runs callbacks of futures. kolo has one for a group, and a callback may start calls and
/// wait for their futures (PowerSGD's does): those come from threads of their own.
thread_local bool runs_callbacks = false;

/// What the caller has done wrong is a ValueError in Python; all else is a RuntimeError.
[[noreturn]] void rethrow(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const InvalidArgumentError& wrong) {
    throw std::invalid_argument(wrong.what());
  } catch (const TimeoutError& late) {  // scripts look for Gloo's words
    throw std::runtime_error(std::string("kolo: Timed out waiting: ") + late.what());
  }
}

}  // namespace

void Call::check_device(const at::Tensor& tensor) {
  const auto name = [this] { return std::string(name_); };
  if (!tensor.defined()) throw std::invalid_argument(with_code(name() + ": the tensor is undefined"));
  const at::Device device = tensor.device();
  if (!device.is_cpu() && !device.is_cuda()) {
    throw std::invalid_argument(with_code(name() + ": a tensor is on " + device.str() +
                                          ", and kolo moves those of the CPU and of CUDA"));
  }
  if (device_.value_or(device) != device) {
    throw std::invalid_argument(
        with_code(name() + ": a tensor is on " + device_->str() + ", and another one on " + device.str()));
  }
  device_ = device;
}

/// Whether the tensor's own memory can be a buffer.
bool Call::is_usable(const at::Tensor& tensor) const {
  return is_plain(tensor) && (takes_devices || tensor.is_cpu());
}

/// A copy that is, or the tensor itself.
at::Tensor Call::usable(const at::Tensor& tensor) const {
  if (is_usable(tensor)) return tensor;
  const at::AutoDispatchBelowADInplaceOrView guard;
  const at::Tensor plain = tensor.resolve_conj().resolve_neg().contiguous();
  return takes_devices ? plain : plain.cpu();
}

void* Call::stream() const {
  if (!takes_devices || !device().is_cuda()) return nullptr;
  return handle_of(c10::impl::VirtualGuardImpl(device().type()).getStream(device()));
}

void Call::check(const at::Tensor& tensor) {
  check_device(tensor);
  if (tensor.layout() != at::kStrided)
    throw std::invalid_argument(with_code(std::string(name_) + ": a tensor is not dense"));
}

void Call::changes(const at::Tensor& tensor) {
  check_device(tensor);
  results_.push_back(tensor);
}

const at::Tensor& Call::hold(at::Tensor tensor, bool reads) {
  return *held_.insert(held_.begin() + (reads ? reads_++ : held_.size()), std::move(tensor));
}

BorrowedConstBuffer Call::input(const at::Tensor& tensor) {
  check(tensor);
  return ConstBuffer(buffer_of(hold(usable(tensor), true)));
}

std::vector<ConstBuffer> Call::inputs(const Tensors& tensors) {
  std::vector<ConstBuffer> buffers;
  for (const at::Tensor& tensor : tensors) buffers.push_back(input(tensor));
  return buffers;
}

std::vector<Buffer> Call::outputs(const Tensors& tensors) {
  std::vector<Buffer> buffers;
  for (const at::Tensor& tensor : tensors) buffers.push_back(output(tensor));
  return buffers;
}

Buffer Call::written(const at::Tensor& tensor, bool reads) {
  check(tensor);
  results_.push_back(tensor);
  if (is_usable(tensor)) return buffer_of(hold(tensor, reads));
  at::assert_no_internal_overlap(tensor);
  const at::AutoDispatchBelowADInplaceOrView guard;
  const auto options = tensor.options().device(takes_devices ? tensor.device() : at::kCPU);
  const at::Tensor& memory =
      hold(reads ? usable(tensor) : at::empty_like(tensor, options, at::MemoryFormat::Contiguous), reads);
  at_end([tensor, memory] { assign(tensor, memory); });
  return buffer_of(memory);
}

Buffer Call::in_out_divided(const at::Tensor& tensor, int divisor) {
  check(tensor);
  results_.push_back(tensor);
  const at::AutoDispatchBelowADInplaceOrView guard;
  const at::Tensor sum = usable(tensor.to(at::kLong, false, /*copy=*/true, at::MemoryFormat::Contiguous));
  hold(sum, true);
  at_end([tensor, sum, divisor] {
    const at::AutoDispatchBelowADInplaceOrView inner;
    tensor.copy_(at::div(sum, at::scalar_tensor(divisor, at::kLong), "trunc"));
  });
  return buffer_of(sum);
}

void Call::add_all(const std::shared_ptr<Call>& other) {
  works_.append(other->works_.begin(), other->works_.end());
  results_.insert(results_.end(), other->results_.begin(), other->results_.end());
  at_end([other] {
    other->settle();
    if (other->error_ != nullptr) std::rethrow_exception(other->error_);
  });
}

void Call::record() {
  if (!at::hasCallbacks()) return;
  const auto event = std::make_shared<at::RecordFunction>(at::RecordScope::USER_SCOPE);
  if (!event->isActive()) return;
  event->_setAsync();  // another thread may end it
  const std::vector<c10::IValue> inputs(held_.begin(), reads_ > 0 ? held_.begin() + reads_ : held_.end());
  event->before(std::string("kolo:") + name_, c10::ArrayRef<const c10::IValue>(inputs.data(), inputs.size()));
  recorded_ = at::wrapPropagateTLSState([event] { event->end(); });
}

bool Call::done() {
  if (settled()) return true;
  if (!std::all_of(works_.begin(), works_.end(), [](const kolo::Work& work) { return work.done(); }))
    return false;
  put_in_place();
  return settled();
}

void Call::settle() {
  put_in_place();
  settled_.wait(false, std::memory_order_acquire);
}

/// The Works are done. The first thread that comes runs the last steps.
void Call::put_in_place() {
  if (has_settler_.exchange(true)) return;
  for (const kolo::Work& work : works_) {
    if (error_ == nullptr) error_ = work.error();
  }
  try {
    if (error_ == nullptr) run_steps();
  } catch (...) {
    error_ = std::current_exception();
  }
  const auto steps = std::move(steps_);
  const auto held = std::move(held_);
  if (recorded_) std::exchange(recorded_, nullptr)();
  settled_.store(true, std::memory_order_release);
  settled_.notify_all();
}

/// What they put on a device is there when they are over.
void Call::run_steps() {
  if (steps_.empty()) return;
  const OwnStream own(device());
  for (const auto& step : steps_) step();
  if (const auto stream = own.guard.current_stream()) stream->synchronize();
}

bool Call::wait_for_works(std::chrono::nanoseconds timeout) noexcept {
  const auto end = Clock::now() + timeout;
  for (const kolo::Work& work : works_) {
    try {
      if (!work.wait(std::max(std::chrono::nanoseconds(end - Clock::now()), std::chrono::nanoseconds(0))))
        return false;
    } catch (const Error&) {  // put_in_place() finds it
    }
  }
  return true;
}

bool Call::wait_quietly(std::chrono::nanoseconds timeout) noexcept {
  if (!wait_for_works(timeout)) return false;
  settle();
  return true;
}

/// ", waiting for rank 1, 2"
std::string Call::awaited() const {
  std::set<int> ranks;
  for (const kolo::Work& work : works_) {
    for (const int rank : work.waiting_for()) ranks.insert(rank);
  }
  std::string text;
  for (const int rank : ranks) text += (text.empty() ? ", waiting for rank " : ", ") + std::to_string(rank);
  return text;
}

void Call::wait(std::chrono::milliseconds timeout) {
  const bool has_limit = timeout.count() > 0;
  for (std::chrono::milliseconds waited{0}; !done();) {
    const auto slice = has_limit ? std::min(kSignalInterval, timeout - waited) : kSignalInterval;
    if (wait_for_works(slice)) {
      settle();
      break;
    }
    try {
      check_signals();
    } catch (...) {
      given_up_ = true;
      throw;
    }
    if (*closed_) stay_if_process_ends();
    // An engine of kolo's lives as long as a thread waits in it: all of them leave.
    if (*closed_)
      throw std::runtime_error(with_code(std::string(name_) + ": the process group was destroyed"));
    waited += slice;
    if (has_limit && waited >= timeout) {
      throw std::runtime_error(with_code(std::string(name_) + ": wait() timed out after " +
                                         std::to_string(timeout.count()) + " ms" + awaited() +
                                         "; the call itself goes on"));
    }
  }
  if (error_ == nullptr) return;
  stay_if_process_ends();
  rethrow(error_);
}

void Call::stay_if_process_ends() {
  while (process_ends && !is_main_thread()) ::pause();
}

void Call::then(const std::shared_ptr<Call>& call, std::function<void()> callback) {
  if (!runs_callbacks) return queue(call, std::move(callback));
  std::thread([call, callback = std::move(callback)] {
    runs_callbacks = true;
    while (!call->wait_quietly(kSignalInterval)) {
      if (*call->closed_) return queue(call, callback);
    }
    callback();
  }).detach();
}

void Call::queue(const std::shared_ptr<Call>& call, std::function<void()> callback) {
  const auto works = call->works_;
  auto left = std::make_shared<std::atomic<std::size_t>>(works.size());
  if (works.empty()) {
    call->settle();
    callback();
  }
  for (const kolo::Work& work : works) {
    work.then([call, left, callback](const kolo::Work&) {
      if (left->fetch_sub(1) > 1) return;
      runs_callbacks = true;
      call->settle();
      callback();
    });
  }
}

void Call::finish_alone(const std::shared_ptr<Call>& call) noexcept {
  if (call->done()) return;
  try {
    queue(call, [] {});  // holds the call
  } catch (...) {
    new std::shared_ptr<Call>(call);  // kolo may still write its memory
  }
}

void Call::abandon(const std::shared_ptr<Call>& call) noexcept {
  call->steps_.clear();
  finish_alone(call);
}

Work::Work(int rank, c10d::OpType type, std::shared_ptr<Call> call)
    : c10d::Work(rank, type), call_(std::move(call)) {}

Work::~Work() {
  Call::finish_alone(call_);
}

/// Tells the future of the call's end, which comes to one thread.
void Work::complete(Call& call, c10::ivalue::Future& future) {
  if (!call.is_told_first()) return;
  if (const auto error = call.error()) return future.setError(error);
  const OwnStream own(call.device());  // the future records an event there, and the result has come
  future.markCompleted(at::IValue(call.result()));
}

bool Work::wait(std::chrono::milliseconds timeout) {
  call_->wait(timeout);
  std::unique_lock lock(mutex_);
  const auto future = future_;
  lock.unlock();  // callbacks may ask the Work
  if (future == nullptr) return true;
  complete(*call_, *future);  // DDP's Reducer reads its value as soon as wait() returns
  future->wait();             // another thread may be about to complete it
  return true;
}

void Work::abort() {
  throw std::runtime_error(with_code("kolo ends no single call: abort the process group"));
}

c10::intrusive_ptr<c10::ivalue::Future> Work::getFuture() {
  const std::lock_guard lock(mutex_);
  if (future_ != nullptr) return future_;
  std::vector<at::Device> devices;
  if (call_->device().is_cuda()) devices.push_back(call_->device());
  future_ = c10::make_intrusive<c10::ivalue::Future>(c10::ListType::create(c10::TensorType::get()), devices);
  if (call_->done()) {
    complete(*call_, *future_);
  } else {
    Call::then(call_, [call = call_, future = future_] { complete(*call, *future); });
  }
  return future_;
}

}  // namespace kolo::pytorch
