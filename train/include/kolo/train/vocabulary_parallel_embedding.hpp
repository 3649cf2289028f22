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

struct VocabularyParallelEmbeddingOptions {
  std::int64_t vocabulary = 0;  ///< rows; as many as ranks or more
  std::int64_t features = 0;
  bool sequence = false;  ///< outputs are slices of the sequence
  at::Generator generator = {};
};

/// Each rank looks up what is in its rows, and a sum over the ranks fills in all other rows (M. Shoeybi et
/// al. 2019, section 3). Backward sends nothing (with `sequence` an all_gather). Slices need not be equal.
/// Construction as of all parallel modules: see parallel_linear.hpp.
class VocabularyParallelEmbeddingImpl : public torch::nn::Module, public TensorParallelModule {
 public:
  VocabularyParallelEmbeddingImpl(const VocabularyParallelEmbeddingOptions& options, Communicator group);

  /// `indices` int64 [...], replicated; returns [..., features], replicated (with `sequence` a slice along
  /// dimension 1). Throws InvalidArgument where an index is not in the vocabulary.
  at::Tensor forward(const at::Tensor& indices);
  std::vector<SlicedParameter> sliced_parameters() const override;
  void pretty_print(std::ostream& stream) const override;

  VocabularyParallelEmbeddingOptions options;
  Slice rows;         ///< this rank's
  at::Tensor weight;  ///< [this rank's rows, features]

 private:
  Communicator group_;
};
TORCH_MODULE(VocabularyParallelEmbedding);

}  // namespace kolo
