// Rollout: what the policy does with a rank's poles, and what came of it.
#pragma once

#include <cstdint>
#include <deque>
#include <random>
#include <vector>

#include "cartpole/network.hpp"
#include "cartpole/pole.hpp"

namespace cartpole {

struct RolloutOptions {
  int poles = 16;          ///< that a rank balances side by side
  int horizon = 64;        ///< steps of each between two rounds of learning
  double discount = 0.99;  ///< of a reward one step later
  double trace = 0.95;     ///< lambda of generalized advantage estimation
};

/// Samples of one round, one after the other. Values and returns are divided by what a pole that stands
/// forever would get, so they are from 0 to 1.
struct Samples {
  at::Tensor observations;  ///< [n, 4]
  std::vector<std::uint8_t> pushed_right;
  std::vector<float> log_probability;  ///< of what was done, by the policy that did it
  std::vector<float> advantage;
  std::vector<float> value_target;
};

/// The poles of a rank. Not thread-safe.
class Rollout {
 public:
  Rollout(const RolloutOptions& options, std::uint64_t seed);

  /// Plays one round, and estimates advantages (J. Schulman et al.: "High-Dimensional Continuous Control
  /// Using Generalized Advantage Estimation", ICLR 2016). An episode that was stopped while its pole stood
  /// counts on with the network's value.
  const Samples& play(Network& network);

  /// The lengths of the last episodes, at most so many.
  const std::deque<int>& last_episodes() const noexcept { return episodes_; }
  void keep_episodes(std::size_t most);

 private:
  struct Moment {
    float value, reward;
    bool goes_on;  ///< the next moment belongs to the same episode
  };

  void read_observations(float* into) const;
  void act(Network& network, int step);
  void estimate_advantages(const std::vector<float>& last_values);
  std::size_t place(int step, int pole) const;

  RolloutOptions options_;
  std::mt19937_64 random_;
  std::vector<Pole> poles_;
  std::vector<Moment> moments_;
  std::deque<int> episodes_;
  std::size_t most_episodes_ = 100;
  Samples samples_;
};

}  // namespace cartpole
