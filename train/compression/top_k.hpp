// TopK: the gradient hook that sends the largest numbers alone.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "compression/feedback.hpp"
#include "compression/selection.hpp"
#include "kolo/sparse.hpp"
#include "kolo/train/hooks.hpp"

namespace kolo::train {

/// Y. Lin et al., "Deep Gradient Compression: Reducing the Communication Bandwidth for Distributed Training",
/// ICLR 2018: momentum correction (section 3.1), momentum factor masking (3.2) and warm-up (3.3). Of each
/// parameter the `ratio` of its elements that have gathered most, one at least, are summed over the ranks as
/// (index, value) data; the rest gathers on.
class TopK final : public GradientHook {
 public:
  /// Throws InvalidArgumentError for options out of their range.
  explicit TopK(const TopKOptions& options);

  std::string describe() const override;
  void check(std::span<const GradientPart> parameters) const override;
  void check(const OptimizerTraits& optimizer) const override;
  void average(const GradientBucket& bucket, Communicator& communicator) override;
  void end_step(bool keep) override;
  HookState state() const override;
  void set_state(const HookState& state) override;

  /// The share of elements that travel in the step to come.
  double ratio_now() const;

 private:
  void gather(const GradientBucket& bucket);

  TopKOptions options_;
  std::uint64_t steps_ = 0;
  Feedback velocity_;     ///< the paper's u
  Feedback accumulated_;  ///< the paper's v
  Selection selection_;
  SparseVector<float> mine_;
  Communicator sums_of_;  ///< the group of the last step; another one follows after a failure
  std::optional<SparseAllReduce> sums_;
};

}  // namespace kolo::train
