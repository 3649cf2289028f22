#include "cartpole/pole.hpp"

#include <cmath>

namespace cartpole {
namespace {

constexpr float kGravity = 9.8f, kCartMass = 1.0f, kPoleMass = 0.1f, kHalfLength = 0.5f, kForce = 10.0f;
constexpr float kStepSeconds = 0.02f;
constexpr float kTrack = 2.4f, kFallen = 12 * 3.14159265f / 180;
constexpr float kMass = kCartMass + kPoleMass, kMoment = kPoleMass * kHalfLength;

}  // namespace

Pole::Pole(std::mt19937_64& random) {
  std::uniform_real_distribution<float> near_upright(-0.05f, 0.05f);
  for (float& value : state_) value = near_upright(random);
}

void Pole::push(bool right) noexcept {
  auto& [position, velocity, angle, angular_velocity] = state_;
  const float sine = std::sin(angle), cosine = std::cos(angle);
  const float pushed =
      ((right ? kForce : -kForce) + kMoment * angular_velocity * angular_velocity * sine) / kMass;
  const float angular_acceleration = (kGravity * sine - cosine * pushed) /
                                     (kHalfLength * (4.0f / 3.0f - kPoleMass * cosine * cosine / kMass));
  const float acceleration = pushed - kMoment * angular_acceleration * cosine / kMass;
  position += kStepSeconds * velocity;  // Euler's method
  velocity += kStepSeconds * acceleration;
  angle += kStepSeconds * angular_velocity;
  angular_velocity += kStepSeconds * angular_acceleration;
  ++steps_;
}

bool Pole::has_failed() const noexcept {
  return std::abs(state_[0]) > kTrack || std::abs(state_[2]) > kFallen;
}

}  // namespace cartpole
