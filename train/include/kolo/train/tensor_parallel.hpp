// Which parameters of a model that is divided among the ranks of a group are whole on each rank, and which
// are slices.
#pragma once

#include "kolo/train/libtorch.hpp"

#include <torch/nn/module.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "kolo/communicator.hpp"
#include "kolo/train/slice.hpp"

namespace kolo {

/// How the ranks of a tensor group hold a parameter.
enum class Placement {
  replicated,  ///< whole on each rank, with the same bits and the same gradient
  slice,       ///< each rank has its slice along a dimension
  own,         ///< whole on this rank; no other rank has it
};

/// A parameter of a model, and which part of it this rank holds.
struct TensorParallelParameter {
  std::string name;                             ///< as in torch::nn::Module::named_parameters()
  at::Tensor parameter;                         ///< this rank's tensor
  Placement placement = Placement::replicated;  ///< how the ranks hold it; what follows is of slices only
  std::int64_t dimension = 0;                   ///< the dimension along which the whole is cut
  Slice slice = {};                             ///< the elements along the dimension that this rank holds
  std::int64_t whole = 0;                       ///< elements along the dimension, of all slices
};

/// What modules have that divide their parameters among a group. A class of the caller's own may derive from
/// it too.
///
/// What follows holds for all modules of kolo that are divided among a group (ColumnParallelLinear,
/// ParallelAttention, MixtureOfExperts, ...). Constructors are collective. Initial values are made whole on
/// each rank, from a generator in the same state on all ranks (torch::manual_seed() with one seed), and each
/// rank keeps its slice. So the ranks together hold what one process makes of that seed. An option out of its
/// range throws InvalidArgumentError, and ranks that differ in options or seed MismatchError: on all ranks,
/// with the name of the rank that differs. forward() and backward() are collective: the ranks use their
/// modules in the same order. Errors of the communicator leave forward() and backward(). Not thread-safe.
///
/// With `sequence` tensors between the layers are slices along dimension 1, [samples, time / ranks,
/// features]: see gather_sequence(). The argument `whole_sequence` of forward() is the time of all slices
/// together; 0: all ranks' slices are as long as this rank's.
class TensorParallelModule {
 public:
  /// Which part of a parameter this rank has.
  struct SlicedParameter {
    std::string name;            ///< without the names of modules around it
    std::int64_t dimension = 0;  ///< the dimension along which the whole is cut
    Slice slice = {};            ///< the elements along the dimension that this rank holds
    std::int64_t whole = 0;      ///< elements along the dimension, of all slices
  };

  virtual ~TensorParallelModule() = default;
  /// The slices among its own parameters, without those of submodules. Its other parameters are replicated.
  virtual std::vector<SlicedParameter> sliced_parameters() const { return {}; }
  /// Whether no other rank has its submodules.
  virtual bool owns_submodules() const { return false; }
};

/// All parameters of a model, each once, in the order of named_parameters(). Local: asks no other rank. What
/// is no TensorParallelModule, and not in one that owns it, is replicated.
std::vector<TensorParallelParameter> tensor_parallel_parameters(const torch::nn::Module& module);

/// Collective: the sum of all squared elements of the gradients of the whole model, with the same bits on all
/// ranks. Parameters without a gradient do not count. For norms over more groups: pipeline stages add theirs.
double tensor_parallel_squared_norm(const torch::nn::Module& module, Communicator group);

/// Collective: as kolo::clip_gradients(), for the norm of the whole model's gradients. Returns that norm.
/// Throws InvalidArgumentError unless `max_norm` is positive and finite.
double clip_tensor_parallel_gradients(const torch::nn::Module& module, double max_norm, Communicator group);

/// Collective: copies of all parameters of the whole model, by name, the same on all ranks: slices are beside
/// each other, and those of one rank alone are there too. What one process with the same modules would hold.
/// Each rank must have memory for it.
std::map<std::string, at::Tensor> gather_whole_parameters(const torch::nn::Module& module,
                                                          Communicator group);

/// Gives each parameter its part of such values, whatever the number of ranks they were gathered from. Local.
/// Throws InvalidArgumentError that names a parameter that is missing or has another shape; then none has
/// changed.
void load_whole_parameters(const torch::nn::Module& module, const std::map<std::string, at::Tensor>& whole);

}  // namespace kolo
