#include "words/model.hpp"

#include <ATen/Functions.h>
#include <c10/core/GradMode.h>

#include <limits>

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

at::Tensor ModelImpl::forward(const at::Tensor& context, const at::Tensor& targets,
                              const at::Tensor& negatives) {
  const at::Tensor state = at::tanh(hidden(input(context).flatten(1)));
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

}  // namespace words
