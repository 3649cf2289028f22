// Model: what wrappers keep equal on all ranks; they prove that it has one shape, then copy rank 0's values.
#pragma once

#include "kolo/train/libtorch.hpp"

#include <torch/nn/module.h>

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "kolo/communicator.hpp"
#include "kolo/memory.hpp"
#include "kolo/train/distributed_data_parallel.hpp"
#include "kolo/train/tensor.hpp"

namespace kolo::train {

using kolo::NamedTensor;

/// A line for each tensor, with its name, type, shape, strides, note, and of what model it is which part.
std::string text_of_layout(std::span<const NamedTensor> tensors);

/// Copies one rank's values of a fixed list of tensors to all ranks. Small tensors travel together in one
/// message through staging memory, which is kept between calls.
class Replicator {
 public:
  explicit Replicator(const std::vector<NamedTensor>& tensors);

  /// Throws InvalidArgumentError, with its name, for a tensor that has got another type, shape or device
  /// since.
  void require_unchanged() const;

  /// Collective; the lists must have the same layout on all ranks. start() borrows the tensors until finish()
  /// has returned or thrown the broadcast's error; meanwhile the root's packed ones may change, unseen.
  void start(Communicator& communicator, int root);
  void finish();
  /// Moves nothing where all ranks have the same values in the host's memory already, as most have that seed
  /// their models alike, or go on after a loss.
  void run(Communicator& communicator, int root);

 private:
  bool are_equal(Communicator& communicator) const;

  struct Member {
    NamedTensor named;
    at::ScalarType type;
    std::vector<std::int64_t> sizes;
    at::Device device;
  };

  std::vector<Member> members_;
  std::vector<at::Tensor> direct_;  ///< large and dense: broadcast where they lie
  std::vector<at::Tensor> packed_;
  std::vector<at::Tensor> staged_;  ///< one for each of packed_, in staging_
  std::optional<SharedMemory> staging_;
  std::vector<TensorWork> works_;
  bool is_root_ = false;
};

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
