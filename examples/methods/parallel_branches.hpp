// ParallelBranches: independent parts of a model, on different ranks of a group.
#pragma once

#include "kolo/train/libtorch.hpp"

#include <ATen/core/Generator.h>
#include <torch/nn/module.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/pimpl.h>

#include <cstdint>
#include <functional>
#include <iosfwd>
#include <vector>

#include "kolo/communicator.hpp"
#include "kolo/train/parallel_layers.hpp"

namespace kolo::methods {

/// How the outputs of branches become one.
enum class CombineBranches {
  sum,          ///< element by element; all outputs have one shape
  concatenate,  ///< in the order of the branches, along ParallelBranchesOptions::dimension
};

/// Where branches run, and what becomes of their outputs. The same on all ranks.
struct ParallelBranchesOptions {
  CombineBranches combine = CombineBranches::sum;  ///< what makes one output of the branches' outputs
  std::int64_t dimension = 1;  ///< along which outputs are concatenated; below 0 it counts from the last one
  /// The rank of each branch, chosen so that ranks take about the same time; each rank has at least one.
  /// Empty: the branches are dealt in their order, as evenly as slice_of() divides them.
  std::vector<int> ranks = {};
};

/// Parts of a model that read one input, each on one rank. Their outputs are summed or concatenated in their
/// order, as those of an inception module (C. Szegedy et al.: "Going Deeper with Convolutions", CVPR 2015,
/// section 4). Forward sends what the outputs take (an all_reduce or an all_gather) and 8 bytes, backward an
/// all_reduce of the input's gradient. Dropout in a branch draws from a state of libtorch's default generator
/// that depends on the group's rank 0 and on the branch alone, wherever it runs; afterwards the generator is
/// as before. Branches may differ in whatever they like; with `sum` all outputs have one shape. Ranks whose
/// branches take longer hold up all ranks.
///
/// Every rank makes all branches, one after another in their order, with one generator, and keeps its own: so
/// the values are those that one process makes. The parameters are "own": no other rank has them.
/// Construction otherwise as of all parallel modules: see TensorParallelModule.
class ParallelBranchesImpl : public torch::nn::Module, public TensorParallelModule {
 public:
  /// Makes one branch: from a tensor to a tensor. Called on every rank, also where the branch does not stay.
  using MakeBranch = std::function<torch::nn::Sequential()>;

  /// Collective. `make` has one function for each branch, at least as many as ranks; they draw from
  /// libtorch's default generator. Throws InvalidArgumentError for options that do not fit the branches or
  /// the ranks, MismatchError where ranks' options or generators differ, on all ranks.
  ParallelBranchesImpl(const std::vector<MakeBranch>& make, const ParallelBranchesOptions& options,
                       Communicator group);

  /// `x` is replicated, and so is what is returned. Collective, also in backward.
  at::Tensor forward(const at::Tensor& x);
  /// True: each branch is on one rank alone.
  bool owns_submodules() const override { return true; }
  /// Writes the options and this rank's part in one line; libtorch calls it to print a model.
  void pretty_print(std::ostream& stream) const override;

  /// As given to the constructor, with `ranks` filled in.
  ParallelBranchesOptions options;

 private:
  std::vector<std::int64_t> lengths_of_branches(const at::Tensor& x, const std::vector<at::Tensor>& own);
  at::Tensor concatenated(const at::Tensor& x, const std::vector<at::Tensor>& own);

  Communicator group_;
  std::vector<torch::nn::Sequential> own_;
  std::vector<std::int64_t> known_input_, known_lengths_;
};
TORCH_MODULE(ParallelBranches);

}  // namespace kolo::methods
