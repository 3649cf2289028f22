// Checkpoint: a layer that backward computes anew.
#pragma once

#include "kolo/train/libtorch.hpp"

#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/nn/modules/linear.h>

#include <cstdint>

namespace kolo::test {

/// Computes a layer anew in backward instead of keeping what it computed, by a backward inside backward.
struct Checkpoint : torch::autograd::Function<Checkpoint> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& x,
                            torch::nn::Linear* layer) {
    context->save_for_backward({x});
    context->saved_data["layer"] = reinterpret_cast<std::int64_t>(layer);
    return (*layer)->forward(x);
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list gradients) {
    const at::Tensor x = context->get_saved_variables()[0].detach().requires_grad_(true);
    const at::AutoGradMode enabled(true);
    const auto layer = reinterpret_cast<torch::nn::Linear*>(context->saved_data["layer"].toInt());
    (*layer)->forward(x).backward(gradients[0]);
    return {x.grad(), at::Tensor()};
  }
};

}  // namespace kolo::test
