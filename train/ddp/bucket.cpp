#include "ddp/bucket.hpp"

#include <ATen/Functions.h>

#include "kolo/train/tensor.hpp"

namespace kolo::train {

Bucket::Bucket(std::span<const std::size_t> members, std::span<const at::Tensor> parameters)
    : dtype_(dtype_of_tensor(parameters[members.front()].scalar_type())) {
  for (const std::size_t index : members) count_ += static_cast<std::uint64_t>(parameters[index].numel());
  memory_ = SharedArena::instance().allocate(count_ * size_of(dtype_));
  std::byte* next = memory_.get();
  for (const std::size_t index : members) {
    const at::Tensor& parameter = parameters[index];
    // One from_blob each, rather than slices of one tensor: optimizers call detach_(), which autograd forbids
    // on views. The parameter's strides: AccumulateGrad and optimizers are fastest when both layouts agree.
    at::Tensor view = at::from_blob(
        next, parameter.sizes(), parameter.strides(), [memory = memory_](void*) {},
        parameter.options().requires_grad(false));
    slots_.push_back({index, std::move(view)});
    next += parameter.nbytes();
  }
}

void Bucket::collect(std::size_t slot, const at::Tensor& parameter) {
  at::Tensor& gradient = parameter.mutable_grad();
  const at::Tensor& view = slots_[slot].view;
  if (gradient.is_same(view)) return;
  const bool lives_here = gradient.data_ptr() == view.data_ptr() && gradient.strides() == view.strides();
  if (!lives_here) view.copy_(gradient);
  gradient = view;
}

void Bucket::collect_unused(std::size_t slot, const at::Tensor& parameter) {
  if (parameter.grad().defined()) {
    collect(slot, parameter);
  } else {
    slots_[slot].view.zero_();
  }
}

void Bucket::start(Communicator& communicator) {
  started_ = Clock::now();
  work_ = communicator.all_reduce_async(buffer(), ReduceOp::average);
}

void Bucket::settle() noexcept {
  try {
    work_.wait();
  } catch (...) {
    // Whoever waited for the result has the error already.
  }
}

}  // namespace kolo::train
