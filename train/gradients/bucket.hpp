// Bucket: gradients that lie side by side, on a device or in shared memory, and are averaged by one
// all-reduce.
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

  /// `members` index `parameters`, which must all be dense tensors of one dtype and device.
  Bucket(std::span<const std::size_t> members, std::span<const NamedTensor> parameters)
      : flat_(parameters, members), all_(flat_.flat()) {
    for (std::size_t slot = 0; slot < members.size(); ++slot) views_.push_back(flat_.view(slot));
  }

  /// By slot: the gradient, with the parameter's shape and layout.
  const std::vector<at::Tensor>& views() const noexcept { return views_; }
  Buffer buffer() const { return flat_.buffer(); }
  at::Device device() const { return all_.device(); }
  std::uint64_t bytes() const { return flat_.bytes(); }

  /// Makes the slot hold the gradient of `parameter` and the gradient live in the slot: a copy when it lay
  /// elsewhere (the first backward, or zero_grad() or an optimizer took it away), nothing at all when it did
  /// not. Zeros where there is no gradient.
  void collect(std::size_t slot, const at::Tensor& parameter) {
    at::Tensor& gradient = parameter.mutable_grad();
    const at::Tensor& view = views_[slot];
    if (gradient.is_same(view)) return;
    if (!gradient.defined()) {
      view.zero_();
      return;
    }
    const bool lives_here = gradient.data_ptr() == view.data_ptr() && gradient.strides() == view.strides();
    if (!lives_here) view.copy_(gradient);
    gradient = view;
  }

  void scale(double factor) {
    for (const at::Tensor& view : views_) view.mul_(factor);
  }
  /// Starts averaging over all ranks; the memory is borrowed until the work is done.
  void start(Communicator& communicator, std::optional<Wire> wire) {
    started_ = Clock::now();
    const bool travels_otherwise = wire && buffer().dtype == DType::float32;
    work_ = all_reduce_async(all_, communicator, ReduceOp::average,
                             {.wire = travels_otherwise ? wire : std::nullopt});
  }
  /// The same by a hook, for float32; AveragingThread::wait() waits for it. The bucket and the hook stay
  /// where they are until then. `bucket` says what the hook needs to know besides the gradients.
  void start(AveragingThread& thread, GradientHook& hook, GradientBucket bucket) {
    started_ = Clock::now();
    bucket.parts = flat_.parts();
    const auto average = [this, &hook, bucket](Communicator& communicator) mutable {
      flat_.on_host([&](Buffer all) {
        bucket.gradients = {static_cast<float*>(all.data), all.count};
        hook.average(bucket, communicator);
      });
      return is_finite();
    };
    thread.start(job_.emplace(AveragingJob{.average = average, .device = device()}));
  }
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
  at::Tensor all_;
  std::vector<at::Tensor> views_;
  TensorWork work_;
  std::optional<AveragingJob> job_;
  Clock::time_point started_;
};

}  // namespace kolo::train
