// WholeAveraging: dense gradients side by side in buckets, a collective or a hook for each.
#pragma once

#include "kolo/train/libtorch.hpp"

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "gradients/averaging.hpp"
#include "gradients/averaging_thread.hpp"
#include "gradients/bucket.hpp"
#include "gradients/bucket_search.hpp"
#include "kolo/train/distributed_data_parallel.hpp"
#include "ranks/model.hpp"

namespace kolo::train {

/// One all_reduce a bucket, in the options' wire format, starts inside backward. Gradients live in the
/// buckets. With a hook, that averages the buckets of float32, one after another, in a thread of its own.
class WholeAveraging : public Averaging {
 public:
  /// `own` index those of `parameters` that it averages. Of `options` it takes the buckets' sizes, the wire
  /// format and the hook, with which it is collective: Communicator::split(). Laid out against the order of
  /// `own`: backward runs against the order in which parameters are registered and used, as a rule.
  WholeAveraging(std::vector<NamedTensor> parameters, std::vector<std::size_t> own, Communicator communicator,
                 const DistributedDataParallelOptions& options);

  const std::vector<Bucket>& buckets() const noexcept { return buckets_; }
  /// What the hook is told: see GradientBucket.
  void set_loss_scale(float scale) noexcept { loss_scale_ = scale; }
  BucketPlan plan() const { return search_ ? search_->plan() : BucketPlan{.is_final = true}; }

  void lay_out(std::span<const std::size_t> order, std::span<const std::size_t> ends) final;
  bool improve(std::span<const std::size_t> order, int root) final;
  std::vector<std::size_t> ends() const final;
  bool is_alike(std::size_t bucket, std::size_t slot, const at::Tensor& parameter) const final {
    return have_one_layout(parameter, view(bucket, slot));
  }
  at::Tensor zero(std::size_t bucket, std::size_t slot) final { return view(bucket, slot).zero_(); }
  void wait() override;
  at::Tensor result(std::size_t bucket, std::size_t slot) override { return view(bucket, slot); }
  void settle() noexcept override;
  bool are_finite() const override;
  Span span(std::size_t bucket) const final {
    return {buckets_[bucket].started(), buckets_[bucket].ended(), buckets_[bucket].bytes()};
  }

 protected:
  void prepare() override;
  void take(std::size_t bucket, std::size_t slot, const at::Tensor& parameter) final;
  void start(std::size_t bucket) override;
  /// By this rank's factor of the step.
  void scale(std::size_t bucket);

  std::vector<NamedTensor> parameters_;
  std::vector<Bucket> buckets_;

 private:
  const at::Tensor& view(std::size_t bucket, std::size_t slot) const {
    return buckets_[bucket].views()[slot];
  }
  void fill(std::vector<std::vector<std::size_t>> members);
  bool is_hooked(const Bucket& bucket) const { return thread_ && bucket.buffer().dtype == DType::float32; }

  std::vector<bool> is_own_;
  const std::uint64_t bytes_, first_bytes_;  ///< of a bucket, and of the first one
  const std::optional<Wire> wire_;
  std::unique_ptr<BucketSearch> search_;  ///< null with borders by sizes
  const std::shared_ptr<GradientHook> hook_;
  float loss_scale_ = 1;
  bool are_finite_ = true;                 ///< with a hook
  std::optional<AveragingThread> thread_;  ///< last, as its jobs use the rest; none without a hook
};

}  // namespace kolo::train
