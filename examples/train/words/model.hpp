// A small language model over words: two large tables and a layer between them.
#pragma once

#include "kolo/train/libtorch.hpp"

#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>

#include <cstdint>

#include "kolo/communicator.hpp"
#include "words/text.hpp"

namespace words {

/// Words that the next one is predicted from.
inline constexpr std::int64_t kContext = 3;

/// A feed-forward language model (Y. Bengio et al.: "A Neural Probabilistic Language Model", JMLR 2003)
/// trained by sampled softmax (S. Jean et al.: "On Using Very Large Target Vocabulary for Neural Machine
/// Translation", ACL 2015, section 3): the right word is told from a few others, which are the same for the
/// whole batch. A step so needs few rows of either table, and their gradients are sparse if asked for.
struct ModelImpl : torch::nn::Module {
  ModelImpl(std::int64_t vocabulary, std::int64_t width, bool sparse);
  /// The mean loss, a scalar, of `context` [n, kContext], `targets` [n] and `negatives` [k], all int64.
  at::Tensor forward(const at::Tensor& context, const at::Tensor& targets, const at::Tensor& negatives);

  /// float32 [n, width]: what `context` says of the next word.
  at::Tensor state_of(const at::Tensor& context);

  LogUniform sampler;
  torch::nn::Embedding input, output;
  torch::nn::Linear hidden;
};
TORCH_MODULE(Model);

/// The kContext words from each place of `text` on: [n, kContext] for int64 `at` [n].
at::Tensor context_at(const at::Tensor& text, const at::Tensor& at);

/// What forward() takes.
struct Batch {
  at::Tensor context, targets, negatives;
};

/// A rank's share of a step, from the places `at` of the text on. The `negatives` are the same on all ranks,
/// so that their rows meet.
Batch batch_at(const at::Tensor& text, const at::Tensor& at, const LogUniform& sampler,
               std::int64_t negatives, std::uint64_t seed, std::uint64_t step);

/// Collective: e to the mean cross-entropy of each word of `text`, int64 [n], after its
/// context, over the whole vocabulary (no sampling); each rank computes a part.
double perplexity(ModelImpl& model, const at::Tensor& text, kolo::Communicator& communicator);

}  // namespace words
