// Adasum: the gradient hook that adds what gradients have apart and averages what they have in common.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "kolo/train/hooks.hpp"

namespace kolo::train {

/// S. Maleki et al., "Scaling Distributed Training with Adaptive Summation", MLSys 2021, section 3: of two
/// gradients a and b of a parameter
///
///     (1 - a.b / 2 |a|^2) a + (1 - a.b / 2 |b|^2) b,
///
/// of more those of pairs of neighbouring ranks, then of pairs of pairs. The paper halves vectors from pair
/// to pair, for powers of two; here each rank holds one part of all ranks' vectors (all_to_all), ranks add up
/// the products of their parts (a few numbers a parameter and level), and the result is gathered: the bytes
/// of a ring, for any number of ranks.
class Adasum final : public GradientHook {
 public:
  std::string describe() const override { return "adasum"; }
  bool is_mean() const override { return false; }
  void average(const GradientBucket& bucket, Communicator& communicator) override;
  void end_step(bool) override {}

 private:
  /// Combines neighbours among `vectors`, this rank's parts from `begin` on, until one is left.
  void combine(std::vector<std::span<float>> vectors, std::size_t begin, std::span<const GradientPart> parts,
               Communicator& communicator);

  std::vector<float> received_;   ///< this rank's part of every rank's bucket
  std::vector<double> products_;  ///< a.a, a.b and b.b of each pair and parameter
};

}  // namespace kolo::train
