// VocabularyParallelEmbedding: a table of embeddings whose rows are divided among the ranks of a group.
#pragma once

#include "kolo/train/libtorch.hpp"

#include <ATen/core/Generator.h>
#include <torch/nn/module.h>
#include <torch/nn/pimpl.h>

#include <cstdint>
#include <iosfwd>
#include <vector>

#include "kolo/communicator.hpp"
#include "kolo/train/tensor_parallel.hpp"

namespace kolo {

/// The shape of a VocabularyParallelEmbedding. The same on all ranks.
struct VocabularyParallelEmbeddingOptions {
  std::int64_t vocabulary = 0;  ///< rows of all ranks together; as many as ranks or more
  std::int64_t features = 0;    ///< length of a row; 1 or more
  bool sequence = false;        ///< outputs are slices of the sequence
  /// Draws the initial values, of the normal distribution N(0, 1); undefined: libtorch's default generator.
  at::Generator generator = {};
};

/// A table of embeddings whose rows are divided among the ranks. Each rank looks up what is in its rows, and
/// a sum over the ranks fills in all other rows (M. Shoeybi et al. 2019, section 3). Backward sends nothing
/// (with `sequence` an all_gather). Slices need not be equal. Construction as of all parallel modules: see
/// TensorParallelModule.
class VocabularyParallelEmbeddingImpl : public torch::nn::Module, public TensorParallelModule {
 public:
  /// Collective over `group`. Throws InvalidArgumentError, MismatchError: see TensorParallelModule.
  VocabularyParallelEmbeddingImpl(const VocabularyParallelEmbeddingOptions& options, Communicator group);

  /// `indices` int64 [...], replicated; returns [..., features], replicated (with `sequence` a slice along
  /// dimension 1). Throws InvalidArgumentError where an index is not in the vocabulary, and for
  /// indices of another type.
  at::Tensor forward(const at::Tensor& indices);
  /// The slices among this module's own parameters; local.
  std::vector<SlicedParameter> sliced_parameters() const override;
  /// Writes the options and this rank's part in one line; libtorch calls it to print a model.
  void pretty_print(std::ostream& stream) const override;

  /// As given to the constructor; a change has no effect on the parameters.
  VocabularyParallelEmbeddingOptions options;
  Slice rows;         ///< the rows that this rank holds
  at::Tensor weight;  ///< [this rank's rows, features]

 private:
  Communicator group_;
};
TORCH_MODULE(VocabularyParallelEmbedding);

}  // namespace kolo
