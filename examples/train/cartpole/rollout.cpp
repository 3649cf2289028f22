#include "cartpole/rollout.hpp"

#include <ATen/Functions.h>

#include <algorithm>
#include <cmath>

namespace cartpole {

Rollout::Rollout(const RolloutOptions& options, std::uint64_t seed) : options_(options), random_(seed) {
  for (int i = 0; i < options.poles; ++i) poles_.emplace_back(random_);
  const std::size_t samples = place(options.horizon, 0);
  moments_.resize(samples);
  samples_.observations = at::zeros({static_cast<std::int64_t>(samples), Network::kInputs});
  samples_.pushed_right.resize(samples);
  for (auto* numbers : {&samples_.log_probability, &samples_.advantage, &samples_.value_target})
    numbers->resize(samples);
}

std::size_t Rollout::place(int step, int pole) const {
  return static_cast<std::size_t>(step) * static_cast<std::size_t>(options_.poles) +
         static_cast<std::size_t>(pole);
}

void Rollout::keep_episodes(std::size_t most) {
  most_episodes_ = most;
  while (episodes_.size() > most) episodes_.pop_front();
}

void Rollout::read_observations(float* into) const {
  for (const Pole& pole : poles_) into = std::ranges::copy(pole.observation(), into).out;
}

const Samples& Rollout::play(Network& network) {
  for (int step = 0; step < options_.horizon; ++step) act(network, step);
  at::Tensor last = at::empty({options_.poles, Network::kInputs});
  read_observations(last.data_ptr<float>());
  const at::Tensor outputs = network.forward(last);
  std::vector<float> last_values;
  for (int pole = 0; pole < options_.poles; ++pole)
    last_values.push_back(outputs.data_ptr<float>()[pole * Network::kOutputs + 2]);
  estimate_advantages(last_values);
  return samples_;
}

void Rollout::act(Network& network, int step) {
  const at::Tensor observations = samples_.observations.narrow(0, step * options_.poles, options_.poles);
  read_observations(observations.data_ptr<float>());
  const at::Tensor outputs = network.forward(observations);
  std::uniform_real_distribution<float> share(0, 1);
  for (int i = 0; i < options_.poles; ++i) {
    const float* output = outputs.data_ptr<float>() + i * Network::kOutputs;
    const float right = 1 / (1 + std::exp(output[0] - output[1]));
    const bool pushes_right = share(random_) < right;
    Pole& pole = poles_[static_cast<std::size_t>(i)];
    pole.push(pushes_right);
    const std::size_t at = place(step, i);
    samples_.pushed_right[at] = pushes_right;
    samples_.log_probability[at] = std::log(pushes_right ? right : 1 - right);
    const auto scale = static_cast<float>(1 - options_.discount);
    moments_[at] = {output[2], scale, true};
    if (!pole.has_failed() && !pole.is_complete()) continue;
    moments_[at].goes_on = false;
    if (!pole.has_failed()) {
      at::Tensor next = at::empty({1, Network::kInputs});
      std::ranges::copy(pole.observation(), next.data_ptr<float>());
      const float value = network.forward(next).data_ptr<float>()[2];
      moments_[at].reward += static_cast<float>(options_.discount) * value;
    }
    episodes_.push_back(pole.steps());
    keep_episodes(most_episodes_);
    pole = Pole(random_);
  }
}

void Rollout::estimate_advantages(const std::vector<float>& last_values) {
  const auto discount = static_cast<float>(options_.discount);
  const float decay = discount * static_cast<float>(options_.trace);
  for (int pole = 0; pole < options_.poles; ++pole) {
    float next_value = last_values[static_cast<std::size_t>(pole)], advantage = 0;
    for (int step = options_.horizon; step-- > 0;) {
      const std::size_t at = place(step, pole);
      const Moment& moment = moments_[at];
      const float kept = moment.goes_on ? 1.0f : 0.0f;
      const float surprise = moment.reward + kept * discount * next_value - moment.value;
      advantage = surprise + kept * decay * advantage;
      samples_.advantage[at] = advantage;
      samples_.value_target[at] = advantage + moment.value;
      next_value = moment.value;
    }
  }
}

}  // namespace cartpole
