#include "train/replayed_model.hpp"

#include <ATen/Functions.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <ranges>
#include <utility>

namespace kolo::bench {
namespace {

/// Seconds. A shorter sleep is added to the next one.
constexpr double kShort = 200e-6;

}  // namespace

/// Forwards `x`. In backward it sleeps until the parameter's gradient is due, and returns the gradient.
class ReplayedModel::Wait : public torch::autograd::Function<Wait> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& x,
                            const at::Tensor& parameter, std::int64_t model, std::int64_t index) {
    static_cast<void>(parameter);
    context->saved_data["model"] = model;
    context->saved_data["index"] = index;
    return x.clone();
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list gradients) {
    auto& model = *reinterpret_cast<ReplayedModel*>(context->saved_data["model"].toInt());
    const auto index = static_cast<std::size_t>(context->saved_data["index"].toInt());
    model.wait_for(index);
    // A new tensor, which autograd moves into a parameter without a gradient, as it does a computed one.
    return {gradients[0], model.parameters_[index].gradient.detach(), at::Tensor(), at::Tensor()};
  }
};

ReplayedModel::ReplayedModel(Trace trace) : trace_(std::move(trace)) {
  for (std::size_t i = 0; i < trace_.parameters.size(); ++i) {
    std::string name = trace_.parameters[i].name;
    std::ranges::replace(name, '.', '_');
    const at::Tensor tensor = register_parameter(name, at::zeros(trace_.parameters[i].shape));
    parameters_.push_back({tensor, at::zeros_like(tensor), nullptr, 0});
    parameters_.back().node = AccumulationHook::add(tensor, [this, i] { note_accumulated(i); });
  }
  order_.resize(parameters_.size());
  std::iota(order_.begin(), order_.end(), std::size_t{0});
  std::ranges::stable_sort(order_, {}, [this](std::size_t i) { return trace_.parameters[i].ready; });
}

void ReplayedModel::set_gradients(float value) {
  const c10::NoGradGuard no_grad;
  for (Parameter& parameter : parameters_) {
    parameter.gradient.fill_(value);
    if (at::Tensor& gradient = parameter.tensor.mutable_grad(); gradient.defined()) gradient.zero_();
  }
}

at::Tensor ReplayedModel::forward() {
  double slept = 0;
  for (const std::size_t index : std::views::reverse(order_)) {
    if (use_of(index) - slept > kShort) {
      sleep_for(use_of(index) - slept);
      slept = use_of(index);
    }
    static_cast<void>(parameters_[index].tensor.detach());  // an operation, which waits for the parameter
  }
  sleep_for(trace_.forward - slept);
  in_backward_ = false;
  at::Tensor x = at::zeros({1});
  // Autograd begins with the last applied function.
  for (const std::size_t index : std::views::reverse(order_)) {
    x = Wait::apply(x, parameters_[index].tensor, reinterpret_cast<std::int64_t>(this),
                    static_cast<std::int64_t>(index));
  }
  return x;
}

double ReplayedModel::use_of(std::size_t index) const {
  if (trace_.backward == 0) return 0;
  return trace_.forward * std::max(0.0, 1 - trace_.parameters[index].ready / trace_.backward);
}

void ReplayedModel::optimize(double share) {
  optimizing_ += share * trace_.optimizer;
  if (share < 1 && optimizing_ < kShort) return;
  sleep_for(std::exchange(optimizing_, 0));
}

void ReplayedModel::wait_for(std::size_t index) {
  if (!std::exchange(in_backward_, true)) backward_begin_ = Clock::now();
  const Parameter& parameter = parameters_[index];
  sleep_until(backward_begin_ + from_seconds(trace_.parameters[index].ready - parameter.lag));
  woken_ = Clock::now();
}

void ReplayedModel::note_accumulated(std::size_t index) {
  parameters_[index].lag = seconds_since(woken_);
}

}  // namespace kolo::bench
