// TopK: the gradient hook that sends the largest numbers alone.
#include <algorithm>
#include <cmath>
#include <optional>

#include "compression/keeping_hook.hpp"
#include "compression/options.hpp"
#include "compression/selection.hpp"
#include "kolo/error.hpp"
#include "kolo/sparse.hpp"

namespace kolo {
namespace train {
namespace {

constexpr double kFirstRatio = 0.25;  // of the warm-up

/// Y. Lin et al., "Deep Gradient Compression: Reducing the Communication Bandwidth for Distributed Training",
/// ICLR 2018: momentum correction (section 3.1), momentum factor masking (3.2) and warm-up (3.3). Of each
/// parameter the `ratio` of its elements that have gathered most, one at least, are summed over the ranks as
/// (index, value) data; the rest gathers on.
class TopK final : public KeepingHook {
 public:
  /// Throws InvalidArgumentError for options out of their range.
  explicit TopK(const TopKOptions& options);

  std::string describe() const override { return specification_of("top_k", options_); }
  void check(std::span<const GradientPart> parameters) const override;
  void check(const OptimizerTraits& optimizer) const override;
  void average(const GradientBucket& bucket, Communicator& communicator) override;

 private:
  /// The share of elements that travel in the step to come.
  double ratio_now() const;
  void gather(const GradientBucket& bucket);

  TopKOptions options_;
  Feedback& velocity_ = kinds_[0];     ///< the paper's u
  Feedback& accumulated_ = kinds_[1];  ///< the paper's v
  Selection selection_;
  SparseVector<float> mine_;
  Communicator sums_of_;  ///< the group of the last step; another one follows after a failure
  std::optional<SparseAllReduce> sums_;
};

TopK::TopK(const TopKOptions& options) : KeepingHook({"velocity of ", "accumulated of "}), options_(options) {
  if (!(options.ratio > 0 && options.ratio <= 1)) {
    throw InvalidArgumentError(
        "top_k: a ratio of " + text_of(options.ratio) + " is not above 0 and at most 1", {});
  }
  if (!(options.momentum >= 0 && options.momentum < 1)) {
    throw InvalidArgumentError(
        "top_k: a momentum of " + text_of(options.momentum) + " is not 0 or more and below 1", {});
  }
}

void TopK::check(std::span<const GradientPart> parameters) const {
  velocity_.check(parameters);
  accumulated_.check(parameters);
}

void TopK::check(const OptimizerTraits& optimizer) const {
  if (options_.momentum > 0 && optimizer.has_momentum) {
    throw InvalidArgumentError("top_k has a momentum of " + text_of(options_.momentum) +
                                   ", which takes the place of the optimizer's: set that of " +
                                   optimizer.name + " to 0, or top_k's",
                               {});
  }
}

double TopK::ratio_now() const {
  if (steps_ >= options_.warm_up_steps || options_.ratio >= kFirstRatio) return options_.ratio;
  // From the first ratio to the last one in equal factors.
  const double progress = static_cast<double>(steps_) / static_cast<double>(options_.warm_up_steps);
  return kFirstRatio * std::pow(options_.ratio / kFirstRatio, progress);
}

void TopK::gather(const GradientBucket& bucket) {
  mine_.length = bucket.gradients.size();
  mine_.indices.clear();
  mine_.values.clear();
  const double ratio = ratio_now();
  const auto momentum = static_cast<float>(options_.momentum);
  const float unscale = 1 / bucket.loss_scale;
  for (const GradientPart& part : bucket.parts) {
    if (!bucket.contributes || part.count == 0) continue;
    const auto gradient = bucket.gradients.subspan(part.offset, part.count);
    const auto accumulated = accumulated_.pending(part.name, part.count);
    const auto accumulated_before = accumulated_.kept(part.name, part.count);
    std::span<float> velocity;
    if (momentum > 0) {
      velocity = velocity_.pending(part.name, part.count);
      const auto velocity_before = velocity_.kept(part.name, part.count);
      for (std::size_t i = 0; i < part.count; ++i) {
        velocity[i] = momentum * velocity_before[i] + unscale * gradient[i];
        accumulated[i] = accumulated_before[i] + velocity[i];
      }
    } else {
      for (std::size_t i = 0; i < part.count; ++i)
        accumulated[i] = accumulated_before[i] + unscale * gradient[i];
    }
    const auto wanted = static_cast<std::size_t>(std::llround(ratio * static_cast<double>(part.count)));
    const std::size_t first = mine_.indices.size();
    selection_.largest(accumulated, std::max<std::size_t>(wanted, 1), part.offset, mine_.indices);
    for (std::size_t s = first; s < mine_.indices.size(); ++s) {
      const std::size_t i = mine_.indices[s] - part.offset;
      mine_.values.push_back(bucket.loss_scale * accumulated[i]);
      accumulated[i] = 0;
      if (momentum > 0) velocity[i] = 0;
    }
  }
}

void TopK::average(const GradientBucket& bucket, Communicator& communicator) {
  if (sums_of_ != communicator) {
    sums_.emplace(communicator);
    sums_of_ = communicator;
  }
  gather(bucket);
  const SparseVector<float> sum = sums_->sum(mine_);
  std::ranges::fill(bucket.gradients, 0.0f);
  const auto ranks = static_cast<float>(communicator.size());
  for (std::size_t s = 0; s < sum.indices.size(); ++s)
    bucket.gradients[sum.indices[s]] = sum.values[s] / ranks;
}

}  // namespace
}  // namespace train

std::shared_ptr<GradientHook> make_top_k_hook(const TopKOptions& options) {
  return std::make_shared<train::TopK>(options);
}

}  // namespace kolo
