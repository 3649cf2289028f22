// The layers of the transformer, each a function of one tensor.
#pragma once

#include "kolo/train/libtorch.hpp"

#include <torch/nn/module.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/normalization.h>

#include "kolo/communicator.hpp"
#include "kolo/train/mixture_of_experts.hpp"
#include "kolo/train/parallel_layers.hpp"
#include "methods/parallel_branches.hpp"
#include "methods/tower_conv2d.hpp"
#include "tensor/options.hpp"

namespace tensor {

// Modes tensor, sequence, experts and branches: layers are divided.

/// Bytes and their places; int64 [n, t] to [n, t, width], with sequences a slice of t.
struct DividedEmbeddingImpl : torch::nn::Module {
  DividedEmbeddingImpl(const Options& options, kolo::Communicator group);
  at::Tensor forward(const at::Tensor& bytes);

  kolo::Communicator group;
  bool divides_sequence;
  kolo::VocabularyParallelEmbedding table;
  at::Tensor places;  ///< [context, width]
};
TORCH_MODULE(DividedEmbedding);

struct DividedBlockImpl : torch::nn::Module {
  DividedBlockImpl(const Options& options, const kolo::Communicator& group);
  at::Tensor forward(const at::Tensor& x);

  std::int64_t context;
  kolo::ParallelTransformerLayer layer;
};
TORCH_MODULE(DividedBlock);

/// Attention by heads, and experts on slices of the sequence.
struct ExpertBlockImpl : torch::nn::Module {
  ExpertBlockImpl(const Options& options, const kolo::Communicator& group);
  at::Tensor forward(const at::Tensor& x);

  std::int64_t context;
  kolo::ParallelLayerNorm attention_norm;
  kolo::ParallelAttention attention;
  kolo::ParallelLayerNorm experts_norm;
  kolo::MixtureOfExperts experts;
};
TORCH_MODULE(ExpertBlock);

/// Mode branches: a causal convolution whose maps are divided, then feed-forward branches of which each rank
/// has some.
struct BranchBlockImpl : torch::nn::Module {
  BranchBlockImpl(const Options& options, kolo::Communicator group);
  at::Tensor forward(const at::Tensor& x);

  kolo::Communicator group;
  torch::nn::LayerNorm convolution_norm, branches_norm;
  kolo::methods::TowerConv2d convolution;
  kolo::methods::ParallelBranches branches;
};
TORCH_MODULE(BranchBlock);

/// [n, t, width] to scores, of which each rank has a slice.
struct DividedHeadImpl : torch::nn::Module {
  DividedHeadImpl(const Options& options, const kolo::Communicator& group);
  at::Tensor forward(const at::Tensor& x);

  std::int64_t context;
  kolo::ParallelLayerNorm norm;
  kolo::ColumnParallelLinear scores;
};
TORCH_MODULE(DividedHead);

// Modes ulysses and ring: each rank has all layers, and a slice of the sequence.

struct SliceEmbeddingImpl : torch::nn::Module {
  SliceEmbeddingImpl(const Options& options, kolo::Communicator group);
  at::Tensor forward(const at::Tensor& bytes);

  kolo::Communicator group;
  torch::nn::Embedding table;
  at::Tensor places;
};
TORCH_MODULE(SliceEmbedding);

struct SliceBlockImpl : torch::nn::Module {
  SliceBlockImpl(const Options& options, kolo::Communicator group);
  at::Tensor forward(const at::Tensor& x);

  kolo::Communicator group;
  bool is_ring;
  std::int64_t heads, context;
  torch::nn::LayerNorm attention_norm, mlp_norm;
  torch::nn::Linear in, out, up, down;
};
TORCH_MODULE(SliceBlock);

struct SliceHeadImpl : torch::nn::Module {
  explicit SliceHeadImpl(const Options& options);
  at::Tensor forward(const at::Tensor& x);

  torch::nn::LayerNorm norm;
  torch::nn::Linear scores;
};
TORCH_MODULE(SliceHead);

}  // namespace tensor
