#include "kolo/train/optim.hpp"

#include <torch/optim/adam.h>
#include <torch/optim/adamw.h>
#include <torch/optim/rmsprop.h>
#include <torch/optim/sgd.h>

#include <cmath>
#include <functional>
#include <optional>
#include <string>
#include <tuple>

#include "kolo/error.hpp"

namespace kolo {
namespace {

struct Momentum {
  double value;
  std::function<void(double)> set;
};

template <typename Options>
std::optional<Momentum> momentum_in(torch::optim::OptimizerOptions& any) {
  auto* const options = dynamic_cast<Options*>(&any);
  if (options == nullptr) return std::nullopt;
  if constexpr (requires { options->betas(); }) {
    return Momentum{std::get<0>(options->betas()), [options](double momentum) {
                      options->betas({momentum, std::get<1>(options->betas())});
                    }};
  } else {
    return Momentum{options->momentum(), [options](double momentum) { options->momentum(momentum); }};
  }
}

std::optional<Momentum> momentum_of(torch::optim::OptimizerOptions& options) {
  using namespace torch::optim;
  for (auto* const find : {momentum_in<SGDOptions>, momentum_in<AdamOptions>, momentum_in<AdamWOptions>,
                           momentum_in<RMSpropOptions>, momentum_in<LARSOptions>, momentum_in<LAMBOptions>}) {
    if (auto found = find(options)) return found;
  }
  return std::nullopt;
}

}  // namespace

void set_learning_rate(torch::optim::Optimizer& optimizer, double rate, const std::vector<double>& factors) {
  auto& groups = optimizer.param_groups();
  if (!factors.empty() && factors.size() != groups.size()) {
    throw InvalidArgumentError(std::to_string(factors.size()) + " factors of learning rates for " +
                                   std::to_string(groups.size()) + " groups of parameters",
                               {});
  }
  std::vector<double> rates(groups.size(), rate);
  for (std::size_t i = 0; i < groups.size(); ++i) {
    if (!factors.empty()) rates[i] *= factors[i];
    if (rates[i] >= 0 && std::isfinite(rates[i])) continue;
    throw InvalidArgumentError(
        "a learning rate of " + std::to_string(rates[i]) + " is negative or not finite", {});
  }
  for (std::size_t i = 0; i < groups.size(); ++i) groups[i].options().set_lr(rates[i]);
}

void set_momentum(torch::optim::Optimizer& optimizer, double momentum) {
  if (!(momentum > 0 && momentum < 1))
    throw InvalidArgumentError("a momentum of " + std::to_string(momentum) + " is not between 0 and 1", {});
  std::vector<Momentum> found;
  for (auto& group : optimizer.param_groups()) {
    auto of_group = momentum_of(group.options());
    // RMSprop makes its buffer in a parameter's first step alone.
    if (!of_group || of_group->value == 0)
      throw InvalidArgumentError("this optimizer has no momentum to set: make it with one", {});
    found.push_back(*std::move(of_group));
  }
  for (const Momentum& of_group : found) of_group.set(momentum);
}

}  // namespace kolo
