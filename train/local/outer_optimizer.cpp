#include "local/outer_optimizer.hpp"

#include <c10/core/GradMode.h>

#include <cmath>
#include <iomanip>
#include <sstream>

#include "kolo/error.hpp"

namespace kolo::train {
namespace {

constexpr const char* kModel = "outer model";
constexpr const char* kMomentum = "outer momentum";
/// So that numbers which differ look different, and 0.7 looks like 0.7.
constexpr int kDigits = 15;

std::string text_of(double value) {
  std::ostringstream text;
  text << std::setprecision(kDigits) << value;
  return text.str();
}

}  // namespace

void OuterOptimizer::require_valid(const OuterOptimizerOptions& options) {
  if (!(options.learning_rate > 0) || !std::isfinite(options.learning_rate)) {
    throw InvalidArgumentError(
        "an outer learning_rate of " + text_of(options.learning_rate) + " is not above 0 and finite", {});
  }
  if (!(options.momentum >= 0 && options.momentum < 1)) {
    throw InvalidArgumentError(
        "an outer momentum of " + text_of(options.momentum) + " is not from 0 to below 1", {});
  }
}

std::string OuterOptimizer::describe(const OuterOptimizerOptions& options) {
  return "outer learning_rate " + text_of(options.learning_rate) + ", momentum " + text_of(options.momentum) +
         (options.nesterov ? ", nesterov" : "");
}

OuterOptimizer::OuterOptimizer(const OuterOptimizerOptions& options, std::span<const NamedTensor> parameters)
    : options_(options), model_(flats_by_type(parameters)) {
  if (options.momentum > 0) momentum_ = flats_by_type(parameters);
  pack(parameters, model_);
}

void OuterOptimizer::begin_from(std::span<const FlatTensors> averages) {
  for (std::size_t i = 0; i < averages.size(); ++i) model_[i].flat().copy_(averages[i].flat());
}

void OuterOptimizer::step(std::span<const FlatTensors> averages) {
  const c10::NoGradGuard no_grad;
  for (std::size_t i = 0; i < averages.size(); ++i) {
    const at::Tensor model = model_[i].flat(), update = averages[i].flat();
    update.neg_().add_(model);  // the outer gradient
    if (!momentum_.empty()) {
      const at::Tensor momentum = momentum_[i].flat();
      momentum.mul_(options_.momentum).add_(update);
      options_.nesterov ? update.add_(momentum, options_.momentum) : update.copy_(momentum);
    }
    model.sub_(update, options_.learning_rate);
    update.copy_(model);
  }
}

void OuterOptimizer::save(torch::serialize::OutputArchive& archive) const {
  kolo::save(model_, archive, kModel);
  kolo::save(momentum_, archive, kMomentum);
}

void OuterOptimizer::load(torch::serialize::InputArchive& archive) {
  kolo::load(model_, archive, kModel);
  kolo::load(momentum_, archive, kMomentum);
}

}  // namespace kolo::train
