// A small transformer that predicts the next byte of a text.
#pragma once

#include "kolo/train/libtorch.hpp"

#include <torch/nn/modules/container/modulelist.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/normalization.h>

#include <cstdint>

#include "language_model/shape.hpp"

namespace language_model {

inline constexpr std::int64_t kBytes = 256;

/// Causal self-attention and a feed-forward layer, each behind a normalization and beside a residual (A.
/// Vaswani et al.: "Attention Is All You Need", NeurIPS 2017; R. Xiong et al.: "On Layer Normalization in the
/// Transformer Architecture", ICML 2020, for its place). The feed-forward layer squares its ReLU (D. So et
/// al.: "Primer: Searching for Efficient Transformers for Language Modeling", NeurIPS 2021, section 4.2).
struct BlockImpl : torch::nn::Module {
  BlockImpl(const Shape& shape, const at::Tensor& bias);
  /// Both float32 [n, t, width].
  at::Tensor forward(const at::Tensor& x);

 private:
  at::Tensor attend(const at::Tensor& x);

  std::int64_t heads_;
  at::Tensor bias_;
  torch::nn::LayerNorm before_attention_, before_feed_forward_;
  torch::nn::Linear queries_keys_values_, projection_, up_, down_;
};
TORCH_MODULE(Block);

/// A byte by itself, and the n-grams that end with it: the last 2, 3, ... bytes, each length with a table
/// whose rows n-grams share by a hash (A. Pagnoni et al.: "Byte Latent Transformer: Patches Scale Better Than
/// Tokens", 2024, section 3.2.1). A look-up costs next to nothing, and spares a layer that learns the same.
struct EmbeddingImpl : torch::nn::Module {
  explicit EmbeddingImpl(const Shape& shape);
  /// [n, t, width] for int64 [n, t].
  at::Tensor forward(const at::Tensor& bytes);

 private:
  torch::nn::Embedding bytes_;
  torch::nn::ModuleList ngrams_;
  torch::nn::Linear join_;
};
TORCH_MODULE(Embedding);

/// Positions are told by a bias on attention that grows with the distance (O. Press, N. Smith, M. Lewis:
/// "Train Short, Test Long: Attention with Linear Biases Enables Input Length Extrapolation", ICLR 2022).
struct TransformerImpl : torch::nn::Module {
  explicit TransformerImpl(const Shape& shape);
  /// Scores, [n, t, 256], of the byte after each of `bytes`, int64 [n, t] with t up to Shape::context.
  at::Tensor forward(const at::Tensor& bytes);

 private:
  Embedding embedding_;
  torch::nn::ModuleList blocks_;
  torch::nn::LayerNorm normalization_;
  torch::nn::Linear output_;
};
TORCH_MODULE(Transformer);

}  // namespace language_model
