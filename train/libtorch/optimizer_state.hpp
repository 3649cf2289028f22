// What an optimizer of libtorch keeps for one parameter.
#pragma once

#include "kolo/train/libtorch.hpp"

#include <torch/optim/optimizer.h>

#include <memory>
#include <sstream>
#include <string>
#include <type_traits>

namespace kolo::train {

template <typename States>
auto& state_in(States& states, const at::Tensor& parameter) {
  using Key = typename States::key_type;
  if constexpr (std::is_same_v<Key, std::string>) {  // libtorch 1.13
    std::ostringstream key;
    key << parameter.unsafeGetTensorImpl();
    return states[key.str()];
  } else {
    return states[parameter.unsafeGetTensorImpl()];
  }
}

/// Null where there is none yet; to be filled by the caller.
inline std::unique_ptr<torch::optim::OptimizerParamState>& state_of(torch::optim::Optimizer& optimizer,
                                                                    const at::Tensor& parameter) {
  return state_in(optimizer.state(), parameter);
}

}  // namespace kolo::train
