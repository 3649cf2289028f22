#include "train/replayed_model.hpp"

#include <ATen/Functions.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <ranges>
#include <thread>
#include <utility>

namespace kolo::bench {
namespace {

constexpr auto kWatched = std::chrono::microseconds(80);

ReplayedModel::Clock::duration from_seconds(double seconds) {
  return std::chrono::duration_cast<ReplayedModel::Clock::duration>(std::chrono::duration<double>(seconds));
}

}  // namespace

void sleep_until(std::chrono::steady_clock::time_point time) {
  std::this_thread::sleep_until(time - kWatched);
  while (std::chrono::steady_clock::now() < time) {
  }
}

/// Passes `x` on; in backward it waits until the gradient of the parameter is due, and gives it.
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
    return {gradients[0], model.parameters_[index].gradient, at::Tensor(), at::Tensor()};
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
  sleep_until(Clock::now() + from_seconds(trace_.forward));
  in_backward_ = false;
  at::Tensor x = at::zeros({1});
  // Autograd begins with what was applied last.
  for (const std::size_t index : std::views::reverse(order_)) {
    x = Wait::apply(x, parameters_[index].tensor, reinterpret_cast<std::int64_t>(this),
                    static_cast<std::int64_t>(index));
  }
  return x;
}

void ReplayedModel::optimize() const {
  sleep_until(Clock::now() + from_seconds(trace_.optimizer));
}

void ReplayedModel::wait_for(std::size_t index) {
  if (!std::exchange(in_backward_, true)) backward_begin_ = Clock::now();
  const Parameter& parameter = parameters_[index];
  sleep_until(backward_begin_ + from_seconds(trace_.parameters[index].ready - parameter.lag));
  woken_ = Clock::now();
}

void ReplayedModel::note_accumulated(std::size_t index) {
  parameters_[index].lag = std::chrono::duration<double>(Clock::now() - woken_).count();
}

}  // namespace kolo::bench
