#include "language_model/model.hpp"

#include <ATen/Functions.h>
#include <c10/core/GradMode.h>
#include <torch/nn/init.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

namespace language_model {
namespace {

/// [heads, context, context], to be added to the scores of attention: minus the distance times a slope of the
/// head, and minus infinity for bytes that are still to come.
at::Tensor attention_bias(const Shape& shape) {
  const at::Tensor head = at::arange(1, shape.heads + 1, at::kFloat);
  const at::Tensor slope = at::pow(2.0, head * (-8.0 / static_cast<double>(shape.heads)));
  const at::Tensor place = at::arange(shape.context, at::kFloat);
  const at::Tensor ahead = place.unsqueeze(0) - place.unsqueeze(1);
  return (slope.view({-1, 1, 1}) * ahead).masked_fill(ahead > 0, -std::numeric_limits<float>::infinity());
}

torch::nn::Linear linear(std::int64_t from, std::int64_t to, double deviation) {
  torch::nn::Linear layer(torch::nn::LinearOptions(from, to).bias(false));
  torch::nn::init::normal_(layer->weight, 0, deviation);
  return layer;
}

/// D. Knuth: "The Art of Computer Programming", volume 3, section 6.4, on multiplicative hashing.
constexpr std::int64_t kMultiplier = 2654435761;
constexpr std::int64_t kHashBits = 31;
constexpr std::int64_t kHashes = std::int64_t{1} << kHashBits;

double inverse_root(std::int64_t value) {
  return 1 / std::sqrt(static_cast<double>(value));
}

}  // namespace

BlockImpl::BlockImpl(const Shape& shape, const at::Tensor& bias)
    : heads_(shape.heads),
      bias_(bias),
      before_attention_(torch::nn::LayerNormOptions({shape.width})),
      before_feed_forward_(torch::nn::LayerNormOptions({shape.width})),
      queries_keys_values_(linear(shape.width, 3 * shape.width, inverse_root(shape.width))),
      // What is added to the residual begins small, so that its sum over all layers does not grow with them.
      projection_(
          linear(shape.width, shape.width, inverse_root(shape.width) * inverse_root(2 * shape.layers))),
      up_(linear(shape.width, 4 * shape.width, inverse_root(shape.width))),
      down_(linear(4 * shape.width, shape.width,
                   inverse_root(4 * shape.width) * inverse_root(2 * shape.layers))) {
  register_module("before_attention", before_attention_);
  register_module("queries_keys_values", queries_keys_values_);
  register_module("projection", projection_);
  register_module("before_feed_forward", before_feed_forward_);
  register_module("up", up_);
  register_module("down", down_);
}

at::Tensor BlockImpl::forward(const at::Tensor& x) {
  const at::Tensor attended = x + attend(before_attention_(x));
  return attended + down_(at::relu(up_(before_feed_forward_(attended))).square());
}

at::Tensor BlockImpl::attend(const at::Tensor& x) {
  const std::int64_t n = x.size(0), t = x.size(1), width = x.size(2), part = width / heads_;
  const at::Tensor all = queries_keys_values_(x).view({n, t, 3, heads_, part}).permute({2, 0, 3, 1, 4});
  const auto of_heads = [&](std::int64_t i) { return all.select(0, i).reshape({n * heads_, t, part}); };
  const at::Tensor scores = at::bmm(of_heads(0), of_heads(1).transpose(1, 2)).view({n, heads_, t, t});
  const at::Tensor bias = bias_.slice(1, 0, t).slice(2, 0, t);
  const at::Tensor weights = at::softmax(scores * inverse_root(part) + bias, -1);
  const at::Tensor sums = at::bmm(weights.view({n * heads_, t, t}), of_heads(2));
  return projection_(sums.view({n, heads_, t, part}).transpose(1, 2).reshape({n, t, width}));
}

EmbeddingImpl::EmbeddingImpl(const Shape& shape)
    : bytes_(kBytes, shape.width),
      join_(linear(std::max<std::int64_t>(shape.longest_ngram - 1, 1) * shape.ngram_width, shape.width,
                   inverse_root(3 * shape.longest_ngram * shape.ngram_width))) {
  register_module("bytes", bytes_);
  register_module("ngrams", ngrams_);
  if (shape.longest_ngram > 1) register_module("join", join_);
  for (std::int64_t length = 2; length <= shape.longest_ngram; ++length) {
    torch::nn::Embedding rows(shape.ngram_rows, shape.ngram_width);
    torch::nn::init::normal_(rows->weight, 0, 0.5);
    ngrams_->push_back(rows);
  }
}

at::Tensor EmbeddingImpl::forward(const at::Tensor& bytes) {
  const at::Tensor single = bytes_(bytes);
  if (ngrams_->is_empty()) return single;
  at::Tensor hash = bytes;
  std::vector<at::Tensor> found;
  for (const auto& rows : *ngrams_) {
    // One more byte from the left each time; there is none before the window, which counts as 0.
    const auto back = static_cast<std::int64_t>(found.size()) + 1;
    const at::Tensor earlier = at::constant_pad_nd(bytes, {back, 0}).slice(1, 0, bytes.size(1));
    hash = (hash * (kBytes + 1) + earlier + 1).remainder(kHashes);
    auto& table = *rows->as<torch::nn::EmbeddingImpl>();
    // The high bits are the well-mixed ones.
    const at::Tensor mixed = (hash * kMultiplier).remainder(kHashes);
    found.push_back(table.forward((mixed * table.weight.size(0)).bitwise_right_shift(kHashBits)));
  }
  return single + join_(at::cat(found, -1));
}

TransformerImpl::TransformerImpl(const Shape& shape)
    : embedding_(shape),
      normalization_(torch::nn::LayerNormOptions({shape.width})),
      output_(shape.width, kBytes) {
  register_module("embedding", embedding_);
  register_module("blocks", blocks_);
  register_module("normalization", normalization_);
  register_module("output", output_);
  const at::Tensor bias = attention_bias(shape);
  for (std::int64_t i = 0; i < shape.layers; ++i) blocks_->push_back(Block(shape, bias));
  // All bytes are equally likely at first.
  torch::nn::init::zeros_(output_->weight);
  torch::nn::init::zeros_(output_->bias);
}

at::Tensor TransformerImpl::forward(const at::Tensor& bytes) {
  at::Tensor x = embedding_(bytes);
  for (const auto& block : *blocks_) x = block->as<BlockImpl>()->forward(x);
  return output_(normalization_(x));
}

}  // namespace language_model
