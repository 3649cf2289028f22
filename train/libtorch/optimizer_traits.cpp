#include "kolo/train/optim.hpp"

#include <torch/optim/adagrad.h>
#include <torch/optim/adam.h>
#include <torch/optim/adamw.h>
#include <torch/optim/lbfgs.h>
#include <torch/optim/rmsprop.h>
#include <torch/optim/sgd.h>

#include "libtorch/optimizer_state.hpp"

namespace kolo {
namespace {

/// Traits from the options of each group, where the groups' options are of this type.
template <typename Options>
bool read_groups(const torch::optim::Optimizer& optimizer, const char* name, OptimizerTraits& traits) {
  bool is_of_type = false;
  for (const auto& group : optimizer.param_groups()) {
    const auto* const options =
        group.has_options() ? dynamic_cast<const Options*>(&group.options()) : nullptr;
    if (options == nullptr) continue;
    is_of_type = true;
    traits.name = name;
    if constexpr (requires { options->momentum() > 0; }) {
      traits.has_momentum = traits.has_momentum || options->momentum() > 0;
    } else if constexpr (requires { options->betas(); }) {
      traits.has_momentum = traits.has_momentum || std::get<0>(options->betas()) > 0;
    }
    if constexpr (requires { options->weight_decay() > 0; })
      traits.has_weight_decay = traits.has_weight_decay || options->weight_decay() > 0;
  }
  return is_of_type;
}

}  // namespace

OptimizerTraits traits_of(const torch::optim::Optimizer& optimizer) {
  OptimizerTraits traits{.name = "unknown"};
  const bool is_known = read_groups<torch::optim::SGDOptions>(optimizer, "SGD", traits) ||
                        read_groups<torch::optim::AdamWOptions>(optimizer, "AdamW", traits) ||
                        read_groups<torch::optim::AdamOptions>(optimizer, "Adam", traits) ||
                        read_groups<torch::optim::RMSpropOptions>(optimizer, "RMSprop", traits) ||
                        read_groups<torch::optim::AdagradOptions>(optimizer, "Adagrad", traits) ||
                        read_groups<torch::optim::LBFGSOptions>(optimizer, "LBFGS", traits) ||
                        read_groups<LARSOptions>(optimizer, "LARS", traits) ||
                        read_groups<LAMBOptions>(optimizer, "LAMB", traits);
  static_cast<void>(is_known);
  return traits;
}

std::unique_ptr<torch::optim::OptimizerParamState>& state_of(torch::optim::Optimizer& optimizer,
                                                             const at::Tensor& parameter) {
  return optimizer.state()[train::state_key(optimizer.state(), parameter)];
}

}  // namespace kolo
