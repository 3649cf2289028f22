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
#include "kolo/train/tensor_parallel.hpp"

namespace kolo {

enum class CombineBranches { sum, concatenate };

struct ParallelBranchesOptions {
  CombineBranches combine = CombineBranches::sum;
  std::int64_t dimension = 1;  ///< along which outputs are concatenated
  /// The rank of each branch, as their times ask for; each rank has one at least. Empty: as many branches on
  /// each rank, in their order (slice_of()).
  std::vector<int> ranks = {};
};

/// Branches that read one input and whose outputs are summed or concatenated in their order, as those of an
/// inception module (C. Szegedy et al.: "Going Deeper with Convolutions", CVPR 2015, section 4), each on one
/// rank. Forward sends what the outputs take (an all_reduce or an all_gather), backward an all_reduce of the
/// input's gradient. Branches may differ in whatever they like; with `sum` all outputs have one shape. Ranks
/// whose branches take longer hold up all ranks.
///
/// Every rank makes all branches, one after another in their order, with one generator, and keeps its own: so
/// the values are those that one process makes. The parameters are "own": no other rank has them.
/// Construction otherwise as of all parallel modules: see parallel_linear.hpp.
class ParallelBranchesImpl : public torch::nn::Module, public TensorParallelModule {
 public:
  using MakeBranch = std::function<torch::nn::Sequential()>;

  /// `make` makes the branches with libtorch's default generator.
  ParallelBranchesImpl(const std::vector<MakeBranch>& make, const ParallelBranchesOptions& options,
                       Communicator group);

  /// `x` is replicated, and so is what is returned.
  at::Tensor forward(const at::Tensor& x);
  bool owns_submodules() const override { return true; }
  void pretty_print(std::ostream& stream) const override;

  ParallelBranchesOptions options;

 private:
  std::vector<std::int64_t> lengths_of_branches(const at::Tensor& x, const std::vector<at::Tensor>& own);
  at::Tensor concatenated(const at::Tensor& x, const std::vector<at::Tensor>& own);

  Communicator group_;
  std::vector<torch::nn::Sequential> own_;
  std::vector<std::int64_t> known_input_, known_lengths_;
};
TORCH_MODULE(ParallelBranches);

}  // namespace kolo
