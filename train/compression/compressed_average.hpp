// CompressedAverage: the gradient hook over any Codec.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "compression/codec.hpp"
#include "compression/feedback.hpp"
#include "kolo/train/hooks.hpp"

namespace kolo::train {

/// Every rank owns a part of the bucket. It gets the other ranks' gradients there, encoded (all_to_all), adds
/// them in float32 in the order of the ranks, its own as they are, and gives the average, encoded, to all
/// (all_gather): H. Tang et al., "1-bit Adam", ICML 2021, section 4.2 ("compressed_allreduce"). With feedback
/// each rank keeps what its encoding has left out: of its gradients in the other ranks' parts, and of the
/// average in its own part, where it counts as many times as there are ranks. A rank without data leaves the
/// former alone and goes on with the latter, as the other ranks need its averages.
class CompressedAverage final : public GradientHook {
 public:
  CompressedAverage(std::unique_ptr<Codec> codec, bool has_feedback, std::uint64_t start_after_steps);

  std::string describe() const override;
  using GradientHook::check;
  void check(std::span<const GradientPart> parameters) const override { feedback_.check(parameters); }
  void average(const GradientBucket& bucket, Communicator& communicator) override;
  /// The first half of average(): each part of `counts` is encoded for itself, and averages are not.
  bool can_scatter() const override { return true; }
  void scatter(const GradientBucket& bucket, std::span<const std::uint64_t> counts,
               Communicator& communicator) override;
  void end_step(bool keep) override;
  HookState state() const override;
  void set_state(const HookState& state) override;

 private:
  static constexpr std::string_view kPrefix = "left out of ", kSteps = "steps";

  std::span<float> part_of(int rank, std::span<float> numbers) const;
  void add_feedback(const GradientBucket& bucket, std::span<const float> mine);
  void keep_feedback(const GradientBucket& bucket);
  void sum_up(const GradientBucket& bucket, Communicator& communicator);
  void give(Communicator& communicator, std::span<float> result);

  std::unique_ptr<Codec> codec_;
  bool has_feedback_;
  std::uint64_t start_after_steps_;
  std::uint64_t steps_ = 0;  ///< that were kept
  Feedback feedback_;
  // Of one bucket; kept for the next one.
  std::vector<std::size_t> ends_;  ///< of the ranks' parts
  std::vector<float> sent_;        ///< gradients with feedback, then what encoding left out of them
  std::vector<float> decoded_;
  std::vector<std::byte> outgoing_;
  std::vector<std::byte> incoming_;
  std::vector<std::uint64_t> send_bytes_;
  std::vector<std::uint64_t> receive_bytes_;
};

}  // namespace kolo::train
