// Bucket: gradients that lie side by side in shared memory and are averaged by one all-reduce.
#pragma once

#include "kolo/train/libtorch.hpp"

#include <chrono>
#include <optional>
#include <span>
#include <vector>

#include "gradients/averaging_thread.hpp"
#include "kolo/communicator.hpp"
#include "kolo/train/hooks.hpp"
#include "kolo/train/tensor.hpp"

namespace kolo::train {

/// Holds one view per parameter into its memory; the views keep the memory alive, so a gradient that somebody
/// still holds survives the bucket. Not thread-safe.
class Bucket {
 public:
  using Clock = std::chrono::steady_clock;

  struct Slot {
    std::size_t parameter;  ///< index among the reducer's parameters
    at::Tensor view;        ///< the gradient, with the parameter's shape and layout
  };

  /// `members` index `parameters`, which must all be dense CPU tensors of one dtype.
  Bucket(std::span<const std::size_t> members, std::span<const NamedTensor> parameters);

  const std::vector<Slot>& slots() const noexcept { return slots_; }
  Buffer buffer() const { return flat_.host(); }
  std::uint64_t bytes() const { return flat_.bytes(); }

  /// Makes the slot hold the gradient of `parameter` and the gradient live in the slot: a copy when it lay
  /// elsewhere (the first backward, or zero_grad() or an optimizer took it away), nothing at all when it did
  /// not.
  void collect(std::size_t slot, const at::Tensor& parameter);
  /// The same for a parameter that has had no part in this backward; zeros where it has no gradient at all.
  void collect_unused(std::size_t slot, const at::Tensor& parameter);

  void scale(double factor);
  /// Starts averaging over all ranks; the memory is borrowed until the work is done.
  void start(Communicator& communicator, std::optional<Wire> wire);
  /// The same by a hook, for float32; AveragingThread::wait() waits for it. The bucket and the hook stay
  /// where they are until then. `bucket` says what the hook needs to know besides the gradients.
  void start(AveragingThread& thread, GradientHook& hook, GradientBucket bucket);
  /// Blocks until the average is in place; throws the operation's error.
  void wait() { work_.wait(); }
  /// The same, but swallows the error: for those who only need the memory back.
  void settle() noexcept { work_ = {}; }
  Clock::time_point started() const noexcept { return started_; }
  /// When the averaging ended, as far as is known; meaningful once it has been waited for.
  Clock::time_point ended() const { return job_ ? job_->ended : started_ + work_.duration(); }
  /// Whether all gradients are finite.
  bool is_finite() const { return are_finite(std::span(&flat_, 1)); }

 private:
  FlatTensors flat_;
  std::vector<Slot> slots_;
  TensorWork work_;
  std::optional<AveragingJob> job_;
  Clock::time_point started_;
};

}  // namespace kolo::train
