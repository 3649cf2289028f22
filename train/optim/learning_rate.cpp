#include "kolo/train/optim.hpp"

#include <torch/optim/adam.h>
#include <torch/optim/adamw.h>
#include <torch/optim/rmsprop.h>
#include <torch/optim/sgd.h>

#include <cmath>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "kolo/error.hpp"

namespace kolo {
namespace {

/// The momentum that the options have, which becomes `next` if that is given; 0 where they have none.
double exchange_momentum(torch::optim::OptimizerOptions& any, std::optional<double> next = {}) {
  using namespace torch::optim;
  double before = 0;
  const auto look = [&]<typename Options>(Options* options) {
    if (options == nullptr) return false;
    double* momentum = nullptr;
    if constexpr (requires { options->betas(); }) {
      momentum = &std::get<0>(options->betas());
    } else {
      momentum = &options->momentum();
    }
    before = std::exchange(*momentum, next.value_or(*momentum));
    return true;
  };
  static_cast<void>(look(dynamic_cast<SGDOptions*>(&any)) || look(dynamic_cast<AdamOptions*>(&any)) ||
                    look(dynamic_cast<AdamWOptions*>(&any)) || look(dynamic_cast<RMSpropOptions*>(&any)) ||
                    look(dynamic_cast<LARSOptions*>(&any)) || look(dynamic_cast<LAMBOptions*>(&any)));
  return before;
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
  for (auto& group : optimizer.param_groups()) {
    // RMSprop makes its buffer in a parameter's first step alone.
    if (exchange_momentum(group.options()) == 0)
      throw InvalidArgumentError("this optimizer has no momentum to set: make it with one", {});
  }
  for (auto& group : optimizer.param_groups()) exchange_momentum(group.options(), momentum);
}

}  // namespace kolo
