#include "kolo/train/tensor.hpp"

#include <ATen/Functions.h>
#include <c10/core/GradMode.h>
#include <torch/version.h>

#include <algorithm>
#include <exception>
#include <utility>

#include "kolo/error.hpp"
#include "libtorch/device.hpp"
#include "libtorch/first_use.hpp"

namespace kolo {
namespace {

constexpr std::pair<at::ScalarType, DType> kTypes[] = {
    {at::kFloat, DType::float32},
    {at::kDouble, DType::float64},
    {at::kHalf, DType::float16},
    {at::kBFloat16, DType::bfloat16},
    {at::kChar, DType::int8},
    {at::kShort, DType::int16},
    {at::kInt, DType::int32},
    {at::kLong, DType::int64},
    {at::kByte, DType::uint8},
    {at::kBool, DType::boolean},
    {at::kComplexFloat, DType::complex64},
    {at::kComplexDouble, DType::complex128},
#if TORCH_VERSION_MAJOR > 2 || (TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR >= 1)
    {at::kFloat8_e4m3fn, DType::float8_e4m3fn},
    {at::kFloat8_e5m2, DType::float8_e5m2},
#endif
};

std::optional<DType> known_type(at::ScalarType type) {
  const auto* const found = std::ranges::find(kTypes, type, &std::pair<at::ScalarType, DType>::first);
  return found == std::end(kTypes) ? std::nullopt : std::optional(found->second);
}

/// The tensor, or a copy with its elements in their logical order. What buffer_of() refuses is for it to
/// refuse: newer libtorch throws an error of its own for a sparse tensor's contiguous().
at::Tensor contiguous_of(const at::Tensor& tensor) {
  if (!tensor.defined() || tensor.layout() != at::kStrided) return tensor;
  const c10::NoGradGuard no_grad;
  return tensor.contiguous();
}

/// The tensor, or memory for its elements in their logical order.
at::Tensor memory_for(const at::Tensor& tensor) {
  if (!tensor.defined() || tensor.layout() != at::kStrided || tensor.is_contiguous()) return tensor;
  return at::empty(tensor.sizes(), tensor.options().requires_grad(false));
}

/// For calls that only move elements: as bytes if kolo does not know their type.
Buffer moved(const at::Tensor& tensor) {
  const bool is_plain =
      tensor.defined() && train::is_served(tensor.device()) && tensor.layout() == at::kStrided;
  if (!is_plain || known_type(tensor.scalar_type())) return buffer_of(tensor);
  train::FirstUse::touch(tensor);
  return {tensor.data_ptr(), tensor.nbytes(), DType::uint8, train::device_of(tensor.device())};
}

/// For calls that take the host's memory only.
at::Tensor host_copy_of(const at::Tensor& tensor) {
  return tensor.defined() && tensor.device().is_cuda() ? tensor.cpu() : tensor;
}

/// Those of a call on the tensor.
CallOptions with_stream(const at::Tensor& tensor, const CallOptions& options) {
  return tensor.defined() ? train::on_current_stream(tensor.device(), options) : options;
}

/// Starts a call that reads `in` and writes `out`.
template <typename Start>
TensorWork started(const at::Tensor& in, const at::Tensor& out, const CallOptions& options,
                   const Start& start) {
  at::Tensor read = contiguous_of(in), memory = memory_for(out);
  const ConstBuffer from = buffer_of(read);
  Work work = start(from, buffer_of(memory), with_stream(out, options));
  return TensorWork(std::move(work), std::move(read), std::move(memory), out);
}

}  // namespace

DType dtype_of_tensor(at::ScalarType type) {
  if (const auto dtype = known_type(type)) return *dtype;
  throw InvalidArgumentError(std::string("kolo cannot reduce tensors of type ") + c10::toString(type), {});
}

void require_collective(const at::Tensor& tensor) {
  if (!tensor.defined()) throw InvalidArgumentError("an undefined tensor has no buffer", {});
  if (!train::is_served(tensor.device())) {
    throw InvalidArgumentError("a tensor on " + tensor.device().str() + " has no buffer that kolo can use",
                               {});
  }
  if (tensor.layout() != at::kStrided) throw InvalidArgumentError("a sparse tensor has no buffer", {});
  dtype_of_tensor(tensor.scalar_type());
}

Buffer buffer_of(const at::Tensor& tensor) {
  require_collective(tensor);
  if (!tensor.is_non_overlapping_and_dense()) {
    throw InvalidArgumentError("the tensor has gaps or overlaps in memory: pass contiguous()", {});
  }
  train::FirstUse::touch(tensor);
  return {tensor.data_ptr(), static_cast<std::uint64_t>(tensor.numel()),
          dtype_of_tensor(tensor.scalar_type()), train::device_of(tensor.device())};
}

TensorWork& TensorWork::operator=(TensorWork&& other) noexcept {
  settle();
  work_ = std::move(other.work_);
  read_ = std::move(other.read_);
  memory_ = std::move(other.memory_);
  result_ = std::move(other.result_);
  is_over_ = other.is_over_;
  return *this;
}

at::Tensor TensorWork::wait() {
  work_.wait();
  return take_result();
}

at::Tensor TensorWork::order() {
  if (!memory_.defined()) return wait();
  train::order_current_stream(work_, memory_.device());
  return take_result();
}

at::Tensor TensorWork::take_result() {
  is_over_ = true;
  if (result_.defined() && memory_.defined() && !memory_.is_same(result_)) {
    const c10::NoGradGuard no_grad;
    result_.variable_data().copy_(memory_);  // like a write to memory, it counts no version
  }
  read_.reset();
  memory_.reset();
  return result_;
}

void TensorWork::settle() noexcept {
  try {
    if (!is_over_) work_.wait();
  } catch (...) {
    // The caller of wait() has the error.
  }
}

std::chrono::nanoseconds wait_all(std::vector<TensorWork>& works) {
  std::exception_ptr error;
  std::chrono::nanoseconds longest{0};
  for (TensorWork& work : works) {
    try {
      work.wait();
      longest = std::max(longest, work.duration());
    } catch (...) {
      if (!error) error = std::current_exception();
    }
  }
  works.clear();
  if (error) std::rethrow_exception(error);
  return longest;
}

TensorWork all_reduce_async(const at::Tensor& tensor, Communicator& communicator, const Reduction& reduction,
                            const CallOptions& options) {
  at::Tensor memory = contiguous_of(tensor);
  Work work = communicator.all_reduce_async(buffer_of(memory), reduction, with_stream(memory, options));
  return TensorWork(std::move(work), {}, std::move(memory), tensor);
}

TensorWork all_reduce_async(const at::Tensor& in, const at::Tensor& out, Communicator& communicator,
                            const Reduction& reduction, const CallOptions& options) {
  return started(in, out, options, [&](ConstBuffer from, Buffer to, const CallOptions& own) {
    return communicator.all_reduce_async(from, to, reduction, own);
  });
}

TensorWork all_gather_async(const at::Tensor& in, const at::Tensor& out, Communicator& communicator,
                            const Counts& counts, const CallOptions& options) {
  return started(in, out, options, [&](ConstBuffer from, Buffer to, const CallOptions& own) {
    return communicator.all_gather_async(from, to, counts, own);
  });
}

TensorWork reduce_scatter_async(const at::Tensor& in, const at::Tensor& out, Communicator& communicator,
                                const Reduction& reduction, const Counts& counts,
                                const CallOptions& options) {
  return started(in, out, options, [&](ConstBuffer from, Buffer to, const CallOptions& own) {
    return communicator.reduce_scatter_async(from, to, reduction, counts, own);
  });
}

TensorWork all_to_all_async(const at::Tensor& in, const at::Tensor& out, Communicator& communicator,
                            const Counts& sent, const Counts& received, const CallOptions& options) {
  return started(in, out, options, [&](ConstBuffer from, Buffer to, const CallOptions& own) {
    return communicator.all_to_all_async(from, to, sent, received, own);
  });
}

TensorWork scatter_async(const at::Tensor& in, const at::Tensor& out, int root, Communicator& communicator,
                         const Counts& counts, const CallOptions& options) {
  const bool is_root = communicator.rank() == root;
  at::Tensor read = is_root ? contiguous_of(in) : at::Tensor(), memory = memory_for(out);
  const ConstBuffer from = is_root ? ConstBuffer(buffer_of(read)) : ConstBuffer();
  Work work = communicator.scatter_async(from, buffer_of(memory), root, counts, with_stream(memory, options));
  return TensorWork(std::move(work), std::move(read), std::move(memory), out);
}

TensorWork broadcast_async(const at::Tensor& tensor, int root, Communicator& communicator,
                           const CallOptions& options) {
  at::Tensor memory = communicator.rank() == root ? contiguous_of(tensor) : memory_for(tensor);
  Work work = communicator.broadcast_async(moved(memory), root, with_stream(memory, options));
  return TensorWork(std::move(work), {}, std::move(memory), tensor);
}

TensorWork send_async(const at::Tensor& tensor, int peer, Communicator& communicator, int tag) {
  at::Tensor read = host_copy_of(contiguous_of(tensor));
  Work work = communicator.send_async(moved(read), peer, tag);
  return TensorWork(std::move(work), std::move(read), {}, {});
}

TensorWork recv_async(const at::Tensor& tensor, int peer, Communicator& communicator, int tag) {
  at::Tensor memory = host_copy_of(memory_for(tensor));
  Work work = communicator.recv_async(moved(memory), peer, tag);
  return TensorWork(std::move(work), {}, std::move(memory), tensor);
}

}  // namespace kolo
