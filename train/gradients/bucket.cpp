#include "gradients/bucket.hpp"

#include <utility>

namespace kolo::train {

Bucket::Bucket(std::span<const std::size_t> members, std::span<const NamedTensor> parameters)
    : flat_(parameters, members) {
  for (std::size_t i = 0; i < members.size(); ++i) slots_.push_back({members[i], flat_.view(i)});
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
  const bool travels_otherwise = wire && buffer().dtype == DType::float32;
  work_ = TensorWork(communicator.all_reduce_async(buffer(), ReduceOp::average,
                                                   {.wire = travels_otherwise ? wire : std::nullopt}));
}

void Bucket::start(AveragingThread& thread, GradientHook& hook, GradientBucket bucket) {
  started_ = Clock::now();
  bucket.gradients = {static_cast<float*>(buffer().data), flat_.count()};
  bucket.parts = flat_.parts();
  const auto average = [this, &hook, bucket = std::move(bucket)](Communicator& communicator) mutable {
    hook.average(bucket, communicator);
    return is_finite();
  };
  thread.start(job_.emplace(AveragingJob{average}));
}

}  // namespace kolo::train
