// Pole: a pole on a cart that is pushed left or right, so that it stays up.
#pragma once

#include <array>
#include <random>

namespace cartpole {

/// Position and velocity of the cart, angle from upright and angular velocity of the pole.
using Observation = std::array<float, 4>;

/// A. Barto, R. Sutton, C. Anderson: "Neuronlike adaptive elements that can solve difficult learning control
/// problems", IEEE Transactions on Systems, Man, and Cybernetics 13 (1983), without friction, with the
/// constants that are in use everywhere since then. Each step counts 1. A value.
class Pole {
 public:
  static constexpr int kMostSteps = 500;

  /// Begins near upright, by `random`.
  explicit Pole(std::mt19937_64& random);

  const Observation& observation() const noexcept { return state_; }
  /// Pushes for one step, to the right or to the left.
  void push(bool right) noexcept;
  /// The cart has left its track, or the pole has fallen.
  bool has_failed() const noexcept;
  /// It has stood long enough, and the episode is over.
  bool is_complete() const noexcept { return steps_ >= kMostSteps; }
  int steps() const noexcept { return steps_; }

 private:
  Observation state_{};
  int steps_ = 0;
};

}  // namespace cartpole
