#include "libtorch/archives.hpp"

#include <torch/optim/adagrad.h>
#include <torch/optim/adam.h>
#include <torch/optim/adamw.h>
#include <torch/optim/lbfgs.h>
#include <torch/optim/rmsprop.h>
#include <torch/optim/sgd.h>

#include <string>

#include "libtorch/first_use.hpp"

namespace kolo {
namespace train {
namespace {

constexpr const char* kOptions = "kolo_options/";

/// A step that waits for the first use of its parameters is part of the state.
void touch_parameters(const torch::optim::Optimizer& optimizer) {
  for (const auto& group : optimizer.param_groups()) {
    for (const at::Tensor& parameter : group.params()) FirstUse::touch(parameter);
  }
}

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

void save_whole(const torch::optim::Optimizer& optimizer, torch::serialize::OutputArchive& archive) {
  touch_parameters(optimizer);
  optimizer.save(archive);
  // load() leaves the options as they are.
  for (std::size_t i = 0; i < optimizer.param_groups().size(); ++i) {
    torch::serialize::OutputArchive options(archive.compilation_unit());
    optimizer.param_groups()[i].options().serialize(options);
    archive.write(kOptions + std::to_string(i), options);
  }
}

void load_whole(torch::optim::Optimizer& optimizer, torch::serialize::InputArchive& archive) {
  touch_parameters(optimizer);
  optimizer.state().clear();  // load() leaves the state of parameters of which the archive has none
  optimizer.load(archive);
  for (std::size_t i = 0; i < optimizer.param_groups().size(); ++i) {
    torch::serialize::InputArchive options;
    archive.read(kOptions + std::to_string(i), options);
    optimizer.param_groups()[i].options().serialize(options);
  }
}

}  // namespace train

OptimizerTraits traits_of(const torch::optim::Optimizer& optimizer) {
  OptimizerTraits traits{.name = "unknown"};
  const bool is_known = train::read_groups<torch::optim::SGDOptions>(optimizer, "SGD", traits) ||
                        train::read_groups<torch::optim::AdamWOptions>(optimizer, "AdamW", traits) ||
                        train::read_groups<torch::optim::AdamOptions>(optimizer, "Adam", traits) ||
                        train::read_groups<torch::optim::RMSpropOptions>(optimizer, "RMSprop", traits) ||
                        train::read_groups<torch::optim::AdagradOptions>(optimizer, "Adagrad", traits) ||
                        train::read_groups<torch::optim::LBFGSOptions>(optimizer, "LBFGS", traits) ||
                        train::read_groups<LARSOptions>(optimizer, "LARS", traits) ||
                        train::read_groups<LAMBOptions>(optimizer, "LAMB", traits);
  static_cast<void>(is_known);
  return traits;
}

std::unique_ptr<torch::optim::OptimizerParamState>& state_of(torch::optim::Optimizer& optimizer,
                                                             const at::Tensor& parameter) {
  return optimizer.state()[train::state_key(optimizer.state(), parameter)];
}

}  // namespace kolo
