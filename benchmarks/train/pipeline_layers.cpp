#include "train/pipeline_layers.hpp"

#include <ATen/Functions.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/pimpl.h>

#include <algorithm>
#include <memory>

#include "train/timing.hpp"

namespace kolo::bench {
namespace {

/// A sleep that takes longer, because the core is busy, shortens this thread's next one.
void sleep_on_average(double seconds) {
  thread_local Clock::duration late{};
  const auto end = Clock::now() + from_seconds(seconds) - late;
  sleep_until(end);
  late = Clock::now() - end;
}

/// A new tensor of `elements`, after a sleep; so is its gradient.
struct Sleep : torch::autograd::Function<Sleep> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& x,
                            const at::Tensor& parameter, double forward_s, double backward_s,
                            std::int64_t elements) {
    sleep_on_average(forward_s);
    context->saved_data["backward_s"] = backward_s;
    context->saved_data["sizes"] = x.sizes();
    return at::zeros({elements}, parameter.options().requires_grad(false));
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& /*gradients*/) {
    sleep_on_average(context->saved_data["backward_s"].toDouble());
    const auto sizes = context->saved_data["sizes"].toIntVector();
    return {at::zeros(sizes), at::zeros({1}), at::Tensor(), at::Tensor(), at::Tensor()};
  }
};

struct SleepingLayerImpl : torch::nn::Module {
  SleepingLayerImpl(double forward_s_, double backward_s_, std::int64_t elements_)
      : forward_s(forward_s_), backward_s(backward_s_), elements(elements_) {
    parameter = register_parameter("parameter", at::zeros({1}));
  }
  at::Tensor forward(const at::Tensor& x) {
    return Sleep::apply(x, parameter, forward_s, backward_s, elements);
  }

  double forward_s, backward_s;
  std::int64_t elements;
  at::Tensor parameter;
};

/// x + a wide layer of x.
struct ResidualBlockImpl : torch::nn::Module {
  ResidualBlockImpl(std::int64_t width, std::int64_t inner) : wide(width, inner), narrow(inner, width) {
    register_module("wide", wide);
    register_module("narrow", narrow);
  }
  at::Tensor forward(const at::Tensor& x) { return x + narrow(at::relu(wide(x))); }

  torch::nn::Linear wide, narrow;
};
TORCH_MODULE(ResidualBlock);

LayeredWorkload residual(std::int64_t batch) {
  torch::nn::Sequential layers;
  for (int i = 0; i < 8; ++i) layers->push_back(ResidualBlock(512, 2048));
  return {layers, at::rand({batch, 512}), at::rand({batch, 512})};
}

LayeredWorkload small(std::int64_t batch) {
  return {torch::nn::Sequential(torch::nn::Linear(784, 30), torch::nn::Linear(30, 10)),
          at::rand({batch, 784}), at::rand({batch, 10})};
}

}  // namespace

torch::nn::Sequential make_sleeping_layers(std::span<const LayerCost> costs, int micro_batches) {
  torch::nn::Sequential layers;
  for (const LayerCost& cost : costs) {
    const auto elements =
        static_cast<std::int64_t>(cost.output_bytes) / static_cast<std::int64_t>(sizeof(float));
    layers->push_back(
        std::make_shared<SleepingLayerImpl>(cost.forward_s / micro_batches, cost.backward_s / micro_batches,
                                            std::max<std::int64_t>(1, elements / micro_batches)));
  }
  return layers;
}

const std::map<std::string, LayeredWorkload (*)(std::int64_t)>& layered_workloads() {
  static const std::map<std::string, LayeredWorkload (*)(std::int64_t)> all = {{"784-30-10", small},
                                                                               {"residual", residual}};
  return all;
}

}  // namespace kolo::bench
