#include "cartpole/objective.hpp"

#include <ATen/Functions.h>

#include <cmath>

namespace cartpole {
namespace {

struct Normal {
  float mean, deviation;
};

Normal advantages_of(const Samples& samples, std::span<const std::int64_t> indices) {
  double sum = 0, squares = 0;
  for (const std::int64_t index : indices) {
    const double advantage = samples.advantage[static_cast<std::size_t>(index)];
    sum += advantage;
    squares += advantage * advantage;
  }
  const auto count = static_cast<double>(indices.size());
  const double mean = sum / count;
  return {static_cast<float>(mean),
          static_cast<float>(std::sqrt(std::max(0.0, squares / count - mean * mean)) + 1e-8)};
}

}  // namespace

at::Tensor objective_gradient(const at::Tensor& outputs, const Samples& samples,
                              std::span<const std::int64_t> indices, const ObjectiveOptions& options) {
  const Normal normal = advantages_of(samples, indices);
  const auto clip = static_cast<float>(options.clip), entropy_weight = static_cast<float>(options.entropy),
             value_weight = static_cast<float>(options.value);
  const float share = 1 / static_cast<float>(indices.size());
  at::Tensor gradient = at::empty(outputs.sizes());
  const float* output = outputs.data_ptr<float>();
  float* into = gradient.data_ptr<float>();
  for (const std::int64_t index : indices) {
    const auto at = static_cast<std::size_t>(index);
    const bool right_was_done = samples.pushed_right[at] != 0;
    const float right = 1 / (1 + std::exp(output[0] - output[1]));
    const float done = std::log(right_was_done ? right : 1 - right);
    const float ratio = std::exp(done - samples.log_probability[at]);
    const float advantage = (samples.advantage[at] - normal.mean) / normal.deviation;
    // Beyond the clip nothing is to be gained.
    const bool is_clipped = advantage > 0 ? ratio > 1 + clip : ratio < 1 - clip;
    const float by_logarithm = is_clipped ? 0 : -advantage * ratio;
    // Of the logarithm of what was done, and of the entropy, by the logit of the right.
    const float logarithm_slope = (right_was_done ? 1.0f : 0.0f) - right;
    const float entropy_slope = right * (1 - right) * (output[0] - output[1]);
    const float slope = share * (by_logarithm * logarithm_slope - entropy_weight * entropy_slope);
    into[0] = -slope;  // the two probabilities add up to 1
    into[1] = slope;
    into[2] = share * value_weight * (output[2] - samples.value_target[at]);
    output += Network::kOutputs;
    into += Network::kOutputs;
  }
  return gradient;
}

}  // namespace cartpole
