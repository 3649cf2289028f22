#include "gradients/bucket.hpp"

#include <ATen/Functions.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <utility>

#include "gradients/finite.hpp"
#include "kolo/train/tensor.hpp"
#include "ranks/model.hpp"

namespace kolo::train {

Bucket::Bucket(std::span<const std::size_t> members, std::span<const NamedTensor> parameters)
    : dtype_(dtype_of_tensor(parameters[members.front()].tensor.scalar_type())) {
  for (const std::size_t index : members) {
    parts_.push_back(part_of(parameters[index], count_));
    count_ += parts_.back().count;
  }
  memory_ = SharedArena::instance().allocate(count_ * size_of(dtype_));
  // Slots that backward does not fill are averaged, and looked at, all the same.
  std::memset(memory_.get(), 0, count_ * size_of(dtype_));
  std::byte* next = memory_.get();
  for (const std::size_t index : members) {
    const at::Tensor& parameter = parameters[index].tensor;
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

void Bucket::scale(double factor) {
  for (Slot& slot : slots_) slot.view.mul_(factor);
}

void Bucket::start(Communicator& communicator, std::optional<Wire> wire) {
  started_ = Clock::now();
  const bool travels_otherwise = wire && dtype_ == DType::float32;
  work_ = communicator.all_reduce_async(buffer(), ReduceOp::average,
                                        {.wire = travels_otherwise ? wire : std::nullopt});
}

void Bucket::start(AveragingThread& thread, GradientHook& hook, GradientBucket bucket) {
  started_ = Clock::now();
  bucket.gradients = {reinterpret_cast<float*>(memory_.get()), count_};
  bucket.parts = parts_;
  const auto average = [&hook, bucket = std::move(bucket)](Communicator& communicator) mutable {
    hook.average(bucket, communicator);
    return are_finite(bucket.gradients);
  };
  thread.start(job_.emplace(AveragingJob{average}));
}

bool Bucket::is_finite() const {
  if (const Buffer all = buffer(); all.dtype == DType::float32)
    return are_finite({static_cast<const float*>(all.data), all.count});
  return std::ranges::all_of(slots_,
                             [](const Slot& slot) { return slot.view.isfinite().all().item<bool>(); });
}

void Bucket::settle() noexcept {
  try {
    work_.wait();
  } catch (...) {
    // Whoever waited for the result has the error already.
  }
}

}  // namespace kolo::train
