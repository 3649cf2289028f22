// Model: what DistributedDataParallel keeps equal on all ranks.
#pragma once

#include "kolo/train/libtorch.hpp"

#include <torch/nn/module.h>

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "kolo/communicator.hpp"
#include "kolo/train/distributed_data_parallel.hpp"
#include "ranks/replicas.hpp"

namespace kolo::train {

using NamedTensors = std::vector<NamedTensor>;

/// Every tensor once, under its first name, where libtorch lists it as often as it is registered (tied
/// weights).
NamedTensors once(const torch::OrderedDict<std::string, at::Tensor>& tensors);
std::vector<at::Tensor> values_of(const NamedTensors& tensors);

/// What a gradient hook is told of parameters, each alone.
std::vector<GradientPart> parts_of(const NamedTensors& parameters);

/// All parameters and buffers, each once. Throws InvalidArgumentError, with its name, for one whose values
/// cannot be copied from rank to rank.
NamedTensors tensors_of(const torch::nn::Module& module);

/// A model's tensors as they are when DistributedDataParallel is made.
struct Model {
  /// Throws InvalidArgumentError, with its name, for a tensor whose values cannot be copied from rank to
  /// rank, or whose gradients cannot be averaged, and where there is nothing to train. Of `options` it takes
  /// the names that are ignored and those with sparse gradients.
  Model(const torch::nn::Module& module, const DistributedDataParallelOptions& options);

  NamedTensors parameters() const;
  /// Those with dense gradients.
  NamedTensors dense() const;
  NamedTensors all() const;

  NamedTensors trainable;
  std::vector<std::size_t> tables;  ///< of `trainable`: those with sparse gradients
  NamedTensors frozen;
  NamedTensors buffers;
  NamedTensors ignored;  ///< parameters
};

/// Collective: what `make` makes, with rank 0's values. Throws, on all ranks, what agree() does where `make`
/// throws, and where `settings` or the models' names, types, shapes, strides and notes are not the same.
/// Where the ranks' machines may round in different ways, rank 0 warns, or with require_equal_machines all
/// throw MismatchError.
Model make_alike(Communicator& communicator, const char* who, const std::string& settings,
                 const std::function<Model()>& make, bool require_equal_machines = false);

}  // namespace kolo::train
