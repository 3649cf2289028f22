// Replica: a copy of a model that computes with the model's own parameters.
#pragma once

#include "kolo/train/libtorch.hpp"

#include <torch/nn/module.h>

#include <memory>
#include <vector>

namespace kolo::methods {

/// What replicas follow, listed anew in every forward pass: users may exchange the memory of parameters.
struct ModuleParts {
  explicit ModuleParts(const torch::nn::Module& module)
      : parameters(module.parameters()), buffers(module.buffers()), modules(module.modules()) {}

  std::vector<at::Tensor> parameters;  ///< one that is registered twice is listed twice
  std::vector<at::Tensor> buffers;
  std::vector<std::shared_ptr<torch::nn::Module>> modules;  ///< parents before their children
};

/// Its parameters are autograd leaves of its own, so that several replicas' gradients do not meet, over the
/// memory of the model's parameters.
class Replica {
 public:
  /// Throws InvalidArgumentError where `module` has other parameters and buffers than `model`, by name or
  /// shape, or ties what `model` does not.
  Replica(std::shared_ptr<torch::nn::Module> module, const torch::nn::Module& model);

  const std::shared_ptr<torch::nn::Module>& module() const noexcept { return module_; }

  /// Throws InvalidArgumentError where follow() could not.
  void require_alike(const ModuleParts& model) const;
  /// Takes on the model's parameters, which of them are frozen, its modes and buffers. `is_first`: this
  /// replica's buffers are the model's own; else it gets their values.
  void follow(const ModuleParts& model, bool is_first);

  void drop_gradients();
  /// Of each parameter, perhaps undefined; leaves none.
  std::vector<at::Tensor> take_gradients();

 private:
  std::shared_ptr<torch::nn::Module> module_;
  ModuleParts parts_;
};

/// Returns the gradient of a leaf, perhaps undefined, and leaves it none.
at::Tensor take_gradient(at::Tensor& leaf);

}  // namespace kolo::methods
