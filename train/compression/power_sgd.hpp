// PowerSgd: the gradient hook that sends matrices as products of thin ones.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "compression/feedback.hpp"
#include "compression/low_rank.hpp"
#include "kolo/train/hooks.hpp"

namespace kolo::train {

/// T. Vogels, S. Karimireddy, M. Jaggi, "PowerSGD: Practical Low-Rank Gradient Compression for Distributed
/// Optimization", NeurIPS 2019, algorithms 1 and 2: one step of power iteration a training step, from where
/// the last one ended, with error feedback. A parameter is a matrix of its first dimension by all others.
/// Where (rows + columns) rank > rows columns / 2 it travels as it is, as vectors do. A bucket takes two
/// all_reduces: of the left factors and of what travels as it is, then of the right factors.
class PowerSgd final : public GradientHook {
 public:
  /// Throws InvalidArgumentError for options out of their range.
  explicit PowerSgd(const PowerSgdOptions& options);

  std::string describe() const override;
  void check(std::span<const GradientPart> parameters) const override;
  using GradientHook::check;
  void average(const GradientBucket& bucket, Communicator& communicator) override;
  void end_step(bool keep) override;
  HookState state() const override;
  void set_state(const HookState& state) override;

 private:
  /// A parameter that travels as two factors.
  struct Matrix {
    const GradientPart* part;
    std::span<float> gradient;  ///< with feedback; what is left out of it in the end
    Vectors left;
    Vectors right;  ///< at first the start, then this rank's own
  };
  /// One that travels as it is, behind the left factors.
  struct Whole {
    const GradientPart* part;
    std::size_t offset;
  };

  void lay_out(const GradientBucket& bucket);
  void start_right_factor(const std::string& parameter, const Vectors& factor);

  PowerSgdOptions options_;
  std::uint64_t steps_ = 0;
  Feedback left_out_;
  Feedback right_factors_;
  // Of one bucket; kept for the next one.
  std::vector<Matrix> matrices_;
  std::vector<Whole> whole_;
  std::vector<float> gradients_;  ///< of the matrices, where what they leave out is not kept
  std::vector<float> left_;       ///< factors, then what travels as it is
  std::vector<float> right_;
  std::vector<float> average_right_;
};

}  // namespace kolo::train
