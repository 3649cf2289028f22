// What an optimizer of libtorch keeps for one parameter; see also state_of().
#pragma once

#include "kolo/train/libtorch.hpp"

#include <torch/optim/optimizer.h>

#include <sstream>
#include <string>
#include <type_traits>

#include "kolo/train/optim.hpp"

namespace kolo::train {

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
