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

OuterOptimizer::OuterOptimizer(const OuterOptimizerOptions& options, std::span<const NamedTensor> parameters,
                               Communicator& communicator)
    : options_(options), model_(parameters) {
  if (options.momentum > 0) momentum_.emplace(parameters);
  pack(parameters, model_, communicator);
}

void OuterOptimizer::begin_from(const FlatTensors& averages) {
  for (std::size_t i = 0; i < averages.flats().size(); ++i)
    at::Tensor(model_.flats()[i]).copy_(averages.flats()[i]);
}

void OuterOptimizer::step(const FlatTensors& averages) {
  const c10::NoGradGuard no_grad;
  for (std::size_t i = 0; i < averages.flats().size(); ++i) {
    at::Tensor model = model_.flats()[i], update = averages.flats()[i];
    update.neg_().add_(model);  // the outer gradient
    if (momentum_) {
      at::Tensor momentum = momentum_->flats()[i];
      momentum.mul_(options_.momentum).add_(update);
      options_.nesterov ? update.add_(momentum, options_.momentum) : update.copy_(momentum);
    }
    model.sub_(update, options_.learning_rate);
    update.copy_(model);
  }
}

void OuterOptimizer::save(torch::serialize::OutputArchive& archive) const {
  save_flats(model_, archive, kModel);
  if (momentum_) save_flats(*momentum_, archive, kMomentum);
}

void OuterOptimizer::load(torch::serialize::InputArchive& archive) {
  load_flats(model_, archive, kModel);
  if (momentum_) load_flats(*momentum_, archive, kMomentum);
}

}  // namespace kolo::train
