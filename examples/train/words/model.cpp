#include "words/model.hpp"

#include <ATen/Functions.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "kolo/kolo.hpp"

namespace words {

ModelImpl::ModelImpl(std::int64_t vocabulary, std::int64_t width, bool sparse)
    : sampler(vocabulary),
      input(torch::nn::EmbeddingOptions(vocabulary, width).sparse(sparse)),
      output(torch::nn::EmbeddingOptions(vocabulary, width).sparse(sparse)),
      hidden(kContext * width, width) {
  register_module("input", input);
  register_module("output", output);
  register_module("hidden", hidden);
  const c10::NoGradGuard no_grad;
  input->weight.mul_(0.1);
  output->weight.mul_(0.1);
}

at::Tensor ModelImpl::state_of(const at::Tensor& context) {
  return at::tanh(hidden(input(context).flatten(1)));
}

at::Tensor ModelImpl::forward(const at::Tensor& context, const at::Tensor& targets,
                              const at::Tensor& negatives) {
  const at::Tensor state = state_of(context);
  // One look-up for both, so that the table gets one gradient.
  const at::Tensor rows = output(at::cat({targets, negatives}));
  const at::Tensor right = (state * rows.slice(0, 0, targets.size(0))).sum(1, true);
  const at::Tensor others = at::matmul(state, rows.slice(0, targets.size(0)).t());
  // Frequent words are drawn more often than they shall count; a negative that is the target is none.
  const at::Tensor is_target = negatives.unsqueeze(0) == targets.unsqueeze(1);
  const at::Tensor scores = at::cat({right - sampler.log_probability(targets).unsqueeze(1),
                                     (others - sampler.log_probability(negatives).unsqueeze(0))
                                         .masked_fill(is_target, -std::numeric_limits<float>::infinity())},
                                    1);
  return (scores.logsumexp(1) - scores.select(1, 0)).mean();
}

double perplexity(ModelImpl& model, const at::Tensor& text, kolo::Communicator& communicator) {
  const c10::NoGradGuard no_grad;
  constexpr std::int64_t kWordsAtOnce = 128;  // times the vocabulary in scores
  const std::int64_t words = text.size(0) - kContext;
  const std::int64_t begin = words * communicator.rank() / communicator.size();
  const std::int64_t end = words * (communicator.rank() + 1) / communicator.size();
  double nats = 0;
  for (std::int64_t i = begin; i < end; i += kWordsAtOnce) {
    const at::Tensor at = at::arange(i, std::min(i + kWordsAtOnce, end), at::kLong);
    const at::Tensor context = context_at(text, at);
    const at::Tensor scores = at::matmul(model.state_of(context), model.output->weight.t());
    const at::Tensor right = scores.gather(1, text.index_select(0, at + kContext).unsqueeze(1)).squeeze(1);
    nats += (scores.logsumexp(1) - right).to(at::kDouble).sum().item().toDouble();
  }
  communicator.all_reduce(kolo::Buffer(&nats, 1, kolo::DType::float64));
  return std::exp(nats / static_cast<double>(words));
}

at::Tensor context_at(const at::Tensor& text, const at::Tensor& at) {
  return text.index_select(0, (at.unsqueeze(1) + at::arange(kContext, at::kLong)).flatten())
      .view({at.size(0), kContext});
}

Batch batch_at(const at::Tensor& text, const at::Tensor& at, const LogUniform& sampler,
               std::int64_t negatives, std::uint64_t seed, std::uint64_t step) {
  std::mt19937_64 random(seed * 1'000'003 + step);
  Batch batch{context_at(text, at), text.index_select(0, at + kContext), at::empty({negatives}, at::kLong)};
  std::generate_n(batch.negatives.data_ptr<std::int64_t>(), negatives, [&] { return sampler(random); });
  return batch;
}

}  // namespace words
