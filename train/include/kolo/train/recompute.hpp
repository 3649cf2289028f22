// recompute(): a part of a model whose activations backward computes anew.
#pragma once

#include "kolo/train/libtorch.hpp"

#include <ATen/core/Tensor.h>

#include <functional>
#include <utility>
#include <vector>

namespace kolo {

namespace train {

/// What recompute() does, for any number of tensors.
std::vector<at::Tensor> recompute(
    std::function<std::vector<at::Tensor>(const std::vector<at::Tensor>&)> function,
    const std::vector<at::Tensor>& inputs);

}  // namespace train

/// Calls `function`, a layer for example, without keeping what it computes for backward. Only the input is
/// kept, and backward calls it again (T. Chen et al.: "Training Deep Nets with Sublinear Memory Cost", 2016;
/// in PyTorch `torch.utils.checkpoint`). Costs a second forward of that part.
///
///     x = kolo::recompute(block, x);
///
/// The second call sees what the first one saw: the states of libtorch's default generator of random numbers
/// and of those that kolo's layers were given (so dropout drops the same elements; afterwards they go on
/// where they were) and of autocast. What else `function` reads must not have changed: a generator that it
/// draws from itself; batch normalization, for one, moves its running statistics twice. A copy of `function`
/// is kept until the graph is gone, and what it refers to has to live as long.
///
/// Gradients reach the parameters in backward(); torch::autograd::grad() finds none of them, and a second
/// derivative (create_graph) throws InvalidArgumentError. Under find_unused_parameters the graph does not
/// show such a part: call prepare_backward({}). Parameters that several such parts share need static_graph.
/// Thread-safe where `function` is; in no_grad mode it is a plain call.
template <typename Function>
at::Tensor recompute(Function function, const at::Tensor& input) {
  return train::recompute(
      [function = std::move(function)](const std::vector<at::Tensor>& inputs) mutable {
        return std::vector<at::Tensor>{function(inputs[0])};
      },
      {input})[0];
}
/// The same for a function that takes a vector of tensors and returns one.
template <typename Function>
std::vector<at::Tensor> recompute(Function function, const std::vector<at::Tensor>& inputs) {
  return train::recompute(std::move(function), inputs);
}

}  // namespace kolo
