#include "train/delayed_replay.hpp"

#include <ATen/Functions.h>
#include <c10/core/GradMode.h>

#include "kolo/train/tensor.hpp"
#include "train/require_average.hpp"

namespace kolo::bench {
namespace {

/// Allocates missing gradients. Otherwise autograd would use the model's tensors, and averages would be
/// written there.
void zero_gradients(const ReplayedModel& model) {
  const c10::NoGradGuard no_grad;
  for (at::Tensor& parameter : model.parameters()) {
    at::Tensor& gradient = parameter.mutable_grad();
    gradient.defined() ? gradient.zero_() : gradient = at::zeros_like(parameter);
  }
}

}  // namespace

DelayedReplay::DelayedReplay(const Trace& trace, const Communicator& communicator)
    : communicator_(communicator),
      model_(std::make_shared<ReplayedModel>(trace)),
      averages_(*model_, communicator) {}

StepTimes DelayedReplay::run(const Trace& trace, int steps, int left_out, bool averages) {
  model_->set_trace(trace);
  model_->set_gradients(static_cast<float>(communicator_.rank() + 1));
  StepClock clock(left_out);
  communicator_.barrier();
  clock.begin();
  auto exposed = averages_.total().exposed;
  for (int step = 0; step < left_out + steps; ++step) {
    zero_gradients(*model_);
    model_->forward().backward();
    if (!averages || averages_.step()) model_->optimize();
    const auto waited = averages_.total().exposed;
    clock.end(waited - exposed);
    exposed = waited;
    if (averages && step > 0) verify();
  }
  averages_.finish();
  return clock.take();
}

std::vector<double> DelayedReplay::communicate(int times) {
  std::int64_t count = 0;
  for (const at::Tensor& parameter : model_->parameters()) count += parameter.numel();
  const at::Tensor flat = shared_empty({count}).zero_();
  std::vector<double> took;
  for (int i = 0; i < times; ++i) {
    communicator_.barrier();
    const auto begin = Clock::now();
    communicator_.all_reduce(buffer_of(flat), ReduceOp::average);
    took.push_back(seconds_since(begin));
  }
  return took;
}

void DelayedReplay::verify() const {
  const float expected = static_cast<float>(communicator_.size() + 1) / 2;
  for (const at::Tensor& parameter : model_->parameters()) {
    require_average(parameter.grad().data_ptr(), static_cast<std::size_t>(parameter.numel()), expected);
  }
}

}  // namespace kolo::bench
