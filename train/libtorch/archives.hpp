// Optimizers in archives, and what an optimizer keeps for one parameter.
#pragma once

#include "kolo/train/libtorch.hpp"

#include <torch/optim/optimizer.h>
#include <torch/serialize/archive.h>

#include <sstream>
#include <string>
#include <type_traits>

#include "kolo/train/optim.hpp"

namespace kolo::train {

/// State and options of each parameter group: libtorch saves the state, but loads it without the options.
void save_whole(const torch::optim::Optimizer& optimizer, torch::serialize::OutputArchive& archive);
/// The inverse, into an optimizer of the same type with the same parameters in the same groups.
void load_whole(torch::optim::Optimizer& optimizer, torch::serialize::InputArchive& archive);

/// Where an optimizer's states have that of the parameter.
template <typename States>
auto state_key(const States&, const at::Tensor& parameter) {
  using Key = typename States::key_type;
  if constexpr (std::is_same_v<Key, std::string>) {  // libtorch 1.13
    std::ostringstream key;
    key << parameter.unsafeGetTensorImpl();
    return key.str();
  } else {
    return Key(parameter.unsafeGetTensorImpl());
  }
}

/// Null where there is none, and none is made.
inline torch::optim::OptimizerParamState* find_state(torch::optim::Optimizer& optimizer,
                                                     const at::Tensor& parameter) {
  const auto found = optimizer.state().find(state_key(optimizer.state(), parameter));
  return found == optimizer.state().end() ? nullptr : found->second.get();
}

}  // namespace kolo::train
