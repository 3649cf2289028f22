#include "kolo/train/precision.hpp"

#include <ATen/Functions.h>
#include <c10/core/GradMode.h>

#include <cmath>
#include <cstdint>
#include <sstream>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "kolo/error.hpp"
#include "kolo/train/averages.hpp"
#include "ranks/agreement.hpp"

namespace kolo {
namespace {

void require_in_range(const LossScalerOptions& options) {
  const auto require = [](bool is_in_range, const char* name, double value) {
    if (!is_in_range) throw InvalidArgumentError(std::string(name) + " is " + std::to_string(value), {});
  };
  const auto is_positive = [](double value) { return value > 0 && std::isfinite(value); };
  require(is_positive(options.initial_scale), "initial_scale", options.initial_scale);
  require(is_positive(options.growth_factor) && options.growth_factor >= 1, "growth_factor",
          options.growth_factor);
  require(is_positive(options.backoff_factor) && options.backoff_factor < 1, "backoff_factor",
          options.backoff_factor);
  require(options.growth_interval > 0, "growth_interval", 0);
}

std::string text_of(const LossScalerOptions& options) {
  std::ostringstream text;
  text.precision(17);
  text << "initial_scale " << options.initial_scale << ", growth_factor " << options.growth_factor
       << ", growth_interval " << options.growth_interval << ", backoff_factor " << options.backoff_factor;
  return text.str();
}

/// The optimizer's tensors that have gradients, each once: tied weights are listed several times.
std::vector<at::Tensor> with_gradients(torch::optim::Optimizer& optimizer) {
  std::vector<at::Tensor> result;
  std::unordered_set<const c10::TensorImpl*> met;
  for (auto& group : optimizer.param_groups()) {
    for (const at::Tensor& parameter : group.params()) {
      if (parameter.grad().defined() && met.insert(parameter.unsafeGetTensorImpl()).second)
        result.push_back(parameter);
    }
  }
  return result;
}

bool has_finite_gradient(const at::Tensor& parameter) {
  const at::Tensor& gradient = parameter.grad();
  return at::isfinite(gradient.is_sparse() ? gradient._values() : gradient).all().item<bool>();
}

}  // namespace

LossScaler::LossScaler(ParallelModel& model, const LossScalerOptions& options)
    : model_(model), options_(options), scale_(options.initial_scale) {
  agree(model.communicator(), "LossScaler", text_of(options), [&] {
    require_in_range(options);
    if (!model.keeps_ranks_equal())
      throw InvalidArgumentError("the model has a hook with which ranks' averages differ", {});
    set_scale(scale_);
  });
}

at::Tensor LossScaler::scale(const at::Tensor& loss) {
  if (!at::isfinite(loss.detach()).all().item<bool>()) losses_are_finite_ = false;
  return loss * scale_;
}

bool LossScaler::unscale(torch::optim::Optimizer& optimizer) {
  if (std::exchange(is_unscaled_, true)) return is_finite_;
  const c10::NoGradGuard no_grad;
  std::unordered_set<const c10::TensorImpl*> averaged;
  for (const PlacedParameter& parameter : model_.placed().parameters()) {
    if (parameter.is_trained) averaged.insert(parameter.tensor.unsafeGetTensorImpl());
  }
  const std::vector<at::Tensor> parameters = with_gradients(optimizer);
  // Averages are the same on all ranks; of other tensors each rank has gradients of its own.
  std::uint8_t is_finite = model_.averages_are_finite() ? 1 : 0;
  for (const at::Tensor& parameter : parameters) {
    if (!averaged.contains(parameter.unsafeGetTensorImpl()) && !has_finite_gradient(parameter)) is_finite = 0;
  }
  model_.communicator().all_reduce(Buffer(&is_finite, 1, DType::uint8), ReduceOp::min);
  // Other slices or stages may be all that overflows.
  if (Communicator& holders = model_.placed().holders(); holders.valid())
    holders.all_reduce(Buffer(&is_finite, 1, DType::uint8), ReduceOp::min);
  is_finite_ = is_finite != 0;
  if (!is_finite_) return false;
  for (const at::Tensor& parameter : parameters) parameter.mutable_grad().mul_(1 / scale_);
  return true;
}

bool LossScaler::step(torch::optim::Optimizer& optimizer) {
  const bool is_finite = unscale(optimizer);
  is_unscaled_ = false;
  if (!is_finite) {
    require_finite_losses();
    ++skipped_;
    steps_since_change_ = 0;
    set_scale(scale_ * options_.backoff_factor);
    return false;
  }
  losses_are_finite_ = true;
  optimizer.step();
  if (++steps_since_change_ < options_.growth_interval) return true;
  steps_since_change_ = 0;
  if (const double larger = scale_ * options_.growth_factor; std::isfinite(static_cast<float>(larger)))
    set_scale(larger);
  return true;
}

void LossScaler::require_finite_losses() {
  // All ranks come here, as they have agreed on what unscale() returns.
  const std::string mine = std::exchange(losses_are_finite_, true) ? "" : "its loss is infinite or NaN";
  if (const auto complaint = train::first_complaint(model_.communicator(), mine)) {
    throw Error("rank " + std::to_string(complaint->rank) + ": " + complaint->text +
                    ", which a smaller loss scale does not change; no rank has made this step",
                {.peer = complaint->rank, .collective = "LossScaler"});
  }
}

void LossScaler::set_scale(double scale) {
  model_.set_loss_scale(static_cast<float>(scale));
  scale_ = scale;
}

void LossScaler::save(torch::serialize::OutputArchive& archive) const {
  archive.write("scale", c10::IValue(scale_));
  archive.write("steps_since_change", c10::IValue(static_cast<std::int64_t>(steps_since_change_)));
  archive.write("skipped_steps", c10::IValue(static_cast<std::int64_t>(skipped_)));
}

void LossScaler::load(torch::serialize::InputArchive& archive) {
  load_or_refuse("LossScaler", [&] {
    const auto read = [&archive](const char* name) {
      c10::IValue value;
      archive.read(name, value);
      return value;
    };
    set_scale(read("scale").toDouble());
    steps_since_change_ = static_cast<std::uint64_t>(read("steps_since_change").toInt());
    skipped_ = static_cast<std::uint64_t>(read("skipped_steps").toInt());
  });
}

}  // namespace kolo
