#include <ATen/Functions.h>
#include <c10/core/Allocator.h>
#include <c10/core/GradMode.h>
#include <c10/util/ThreadLocalDebugInfo.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "gradients/times.hpp"
#include "kolo/error.hpp"
#include "kolo/train/pipeline_parallel.hpp"

namespace kolo {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kWarmUp = 2;

/// Buffers and gradients as they were when it was made.
class KeptState {
 public:
  explicit KeptState(const torch::nn::Module& module) {
    for (const at::Tensor& buffer : module.buffers()) buffers_.emplace_back(buffer, buffer.clone());
    for (const at::Tensor& parameter : module.parameters())
      gradients_.emplace_back(parameter, std::exchange(parameter.mutable_grad(), at::Tensor()));
  }
  ~KeptState() {
    const c10::NoGradGuard no_grad;
    for (const auto& [buffer, values] : buffers_) buffer.copy_(values);
    for (const auto& [parameter, gradient] : gradients_) parameter.mutable_grad() = gradient;
  }
  KeptState(const KeptState&) = delete;
  KeptState& operator=(const KeptState&) = delete;

 private:
  std::vector<std::pair<at::Tensor, at::Tensor>> buffers_, gradients_;
};

/// The type of libtorch's totals, which differs between its versions.
template <typename Function>
struct TotalOf;
template <typename Class, typename Total>
struct TotalOf<void (Class::*)(void*, std::int64_t, Total, Total, c10::Device)> {
  using Type = Total;
};
using Total = TotalOf<decltype(&c10::MemoryReportingInfoBase::reportMemoryUsage)>::Type;

/// The memory of tensors that this thread has allocated, less what it has given back, since this was made.
class AllocatedBytes final : public c10::MemoryReportingInfoBase {
 public:
  void reportMemoryUsage(void* /*memory*/, std::int64_t bytes, Total /*allocated*/, Total /*reserved*/,
                         c10::Device device) override {
    if (device.is_cpu()) count += bytes;
  }
  bool memoryProfilingEnabled() const override { return true; }

  std::int64_t count = 0;
};

/// The layers one after the other, each with a graph of its own, as stages would have it.
void run_layers(torch::nn::Sequential& layers, const at::Tensor& input,
                std::vector<std::pair<std::vector<double>, std::vector<double>>>& times) {
  at::Tensor x = input.detach();
  std::size_t index = 0;
  for (torch::nn::AnyModule& layer : *layers) {
    at::Tensor own = x;
    if (index > 0 && c10::isFloatingType(x.scalar_type())) own = x.detach().set_requires_grad(true);
    const at::Tensor given = own.requires_grad() ? own.clone() : own;  // no leaf: layers may work in place
    const auto begin = Clock::now();
    const at::Tensor output = layer.forward(given);
    const double forward = train::seconds_of(Clock::now() - begin);
    double backward = 0;
    if (output.requires_grad()) {
      const at::Tensor gradient = at::ones_like(output);
      const auto begin_backward = Clock::now();
      torch::autograd::backward({output}, {gradient});
      backward = train::seconds_of(Clock::now() - begin_backward);
    }
    times[index].first.push_back(forward);
    times[index].second.push_back(backward);
    x = output.detach();
    ++index;
  }
}

/// The bytes that each layer leaves behind, in one graph of all of them.
void measure_memory(torch::nn::Sequential& layers, const at::Tensor& input, std::vector<LayerCost>& costs) {
  const auto allocated = std::make_shared<AllocatedBytes>();
  const c10::DebugInfoGuard guard(c10::DebugInfoKind::PROFILER_STATE, allocated);  // in place of a profiler
  at::Tensor x = input.detach();
  std::int64_t before = allocated->count;
  std::size_t index = 0;
  for (torch::nn::AnyModule& layer : *layers) {
    x = layer.forward(x);
    const std::int64_t now = allocated->count;
    costs[index].output_bytes = x.nbytes();
    costs[index].activation_bytes = static_cast<std::uint64_t>(std::max<std::int64_t>(now - before, 0));
    before = now;
    ++index;
  }
}

}  // namespace

std::vector<LayerCost> measure_layers(torch::nn::Sequential layers, const at::Tensor& input, int repeats) {
  if (layers.is_empty() || layers->size() == 0)
    throw InvalidArgumentError("there are no layers to measure", {});
  if (repeats < 1) throw InvalidArgumentError("layers have to run once at least to be measured", {});
  const c10::AutoGradMode with_graph(true);
  const KeptState kept(*layers);
  std::vector<LayerCost> costs;
  for (const auto& child : layers->named_children()) {
    LayerCost cost{.name = child.key()};
    for (const at::Tensor& parameter : child.value()->parameters())
      cost.parameters += static_cast<std::uint64_t>(parameter.numel());
    costs.push_back(std::move(cost));
  }
  std::vector<std::pair<std::vector<double>, std::vector<double>>> times(costs.size());
  for (int i = 0; i < kWarmUp; ++i) run_layers(layers, input, times);
  for (auto& [forward, backward] : times) {
    forward.clear();
    backward.clear();
  }
  for (int i = 0; i < repeats; ++i) run_layers(layers, input, times);
  for (std::size_t i = 0; i < costs.size(); ++i) {
    costs[i].forward_s = train::median_of(times[i].first);
    costs[i].backward_s = train::median_of(times[i].second);
  }
  measure_memory(layers, input, costs);
  return costs;
}

}  // namespace kolo
