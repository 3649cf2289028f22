#include "train/hybrid_layers.hpp"

#include <ATen/Functions.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>

#include "kolo/train/tensor.hpp"
#include "train/json.hpp"
#include "train/timing.hpp"

namespace kolo::bench {
namespace {

class HybridLayerImpl : public torch::nn::Module {
 public:
  HybridLayerImpl(const HybridLayer& layer, std::size_t place, const HybridLayer* before,
                  std::shared_ptr<HybridSetting> setting)
      : setting_(std::move(setting)) {
    const bool is_shared = layer.tensor_sums > 0;
    const double scale = setting_->batches, parts = is_shared ? setting_->tensor.size() : 1;
    forward_ = scale * layer.forward / parts;
    backward_ = scale * layer.backward / parts;
    // Each rank keeps the whole input.
    const double input = before == nullptr ? 0 : std::min(layer.activation_bytes, before->output_bytes);
    kept_ = floats_of(scale * (input + (layer.activation_bytes - input) / parts));
    output_ = std::max<std::int64_t>(1, floats_of(scale * layer.output_bytes));
    const auto parameters = static_cast<std::int64_t>(static_cast<double>(layer.parameters) / parts);
    parameter_ = register_parameter(
        "parameter", at::full({std::max<std::int64_t>(1, parameters)}, static_cast<float>(place)));
    if (is_shared && setting_->tensor.size() > 1) sums_ = at::ones({floats_of(scale * layer.tensor_sums)});
  }

  at::Tensor forward(const at::Tensor& x) {
    return Replay::apply(x, parameter_, reinterpret_cast<std::int64_t>(this));
  }

 private:
  struct Replay : torch::autograd::Function<Replay> {
    static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& x,
                              const at::Tensor& parameter, std::int64_t address) {
      auto& layer = *reinterpret_cast<HybridLayerImpl*>(address);
      layer.compute(parameter, layer.forward_);
      context->saved_data["layer"] = address;
      context->saved_data["sizes"] = x.sizes();
      if (layer.setting_->keeps_activations) context->saved_data["kept"] = at::ones({layer.kept_});
      return at::zeros({layer.output_});
    }
    static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                   const torch::autograd::variable_list& /*gradients*/) {
      auto& layer = *reinterpret_cast<HybridLayerImpl*>(context->saved_data["layer"].toInt());
      layer.compute(layer.parameter_, layer.backward_);
      context->saved_data.erase("kept");
      return {at::zeros(context->saved_data["sizes"].toIntVector()),
              at::full(layer.parameter_.sizes(), layer.setting_->gradient), at::Tensor()};
    }
  };

  static std::int64_t floats_of(double bytes) { return static_cast<std::int64_t>(bytes / sizeof(float)); }

  void compute(const at::Tensor& parameter, double seconds) {
    {
      const c10::NoGradGuard no_grad;
      static_cast<void>(parameter.detach());  // the first operation on it waits for a gather
    }
    sleep(seconds);
    // Averages in place of sums, so that values do not grow.
    if (sums_.defined()) setting_->tensor.all_reduce(buffer_of(sums_), ReduceOp::average);
  }

  void sleep(double seconds) {
    thread_local Clock::duration late{};
    const auto end = Clock::now() + from_seconds(seconds) - late;
    sleep_until(end);
    if (setting_->catches_up) late = Clock::now() - end;
  }

  std::shared_ptr<HybridSetting> setting_;
  double forward_ = 0, backward_ = 0;
  std::int64_t kept_ = 0, output_ = 1;
  at::Tensor parameter_, sums_;
};

}  // namespace

at::Tensor small_loss(const at::Tensor& output, const at::Tensor&) {
  return output.slice(0, 0, 1).sum();
}

std::vector<HybridLayer> read_hybrid_profile(const std::string& path) {
  return read_layers<HybridLayer>(path, [](const nlohmann::json& layer) {
    return HybridLayer{.parameters = layer.at("parameters"),
                       .forward = seconds_at(layer, "forward_ms"),
                       .backward = seconds_at(layer, "backward_ms"),
                       .optimizer = 1e-3 * layer.value("optimizer_ms", 0.0),
                       .activation_bytes = layer.at("activation_bytes"),
                       .output_bytes = layer.at("output_bytes"),
                       .tensor_sums = layer.value("tensor_sums", 0.0)};
  });
}

torch::nn::Sequential make_hybrid_layers(std::span<const HybridLayer> layers,
                                         const std::shared_ptr<HybridSetting>& setting) {
  torch::nn::Sequential made;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    made->push_back(
        std::make_shared<HybridLayerImpl>(layers[i], i, i == 0 ? nullptr : &layers[i - 1], setting));
  }
  return made;
}

}  // namespace kolo::bench
