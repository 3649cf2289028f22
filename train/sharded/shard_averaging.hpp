// ShardAveraging: averages gradients unit by unit, each to the rank that owns it.
#pragma once

#include "kolo/train/libtorch.hpp"

#include <chrono>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "gradients/averaging.hpp"
#include "gradients/averaging_thread.hpp"
#include "kolo/train/tensor.hpp"
#include "sharded/sharded_step.hpp"

namespace kolo::train {

/// The other half of ShardedDataParallel's engine. A bucket is a unit that is trained; one reduce_scatter at
/// a time is under way, as more of them are more gradients in memory. Averages become the gradients of
/// shards, and parameters have none. Where other ranks hold the same shards, this rank's part of each unit is
/// averaged with theirs, also under backward.
class ShardAveraging final : public Averaging {
 public:
  /// `step` outlives it. `data`: the ranks with the same shards; not valid: none.
  /// Collective where there is a hook, or it is null: it gets a communicator of its own.
  ShardAveraging(ShardedStep& step, const Communicator& communicator, Communicator data,
                 std::shared_ptr<GradientHook> hook);
  ~ShardAveraging() override { ShardAveraging::settle(); }

  /// The parameters of the trained units, in their order: those that it averages.
  std::vector<NamedTensor> parameters() const;

  void lay_out(std::span<const std::size_t> order, std::span<const std::size_t> ends) override;
  /// The unit looks at that itself.
  bool is_alike(std::size_t, std::size_t, const at::Tensor&) const override { return true; }
  bool hears_of_all() const override { return true; }
  void begin_backward() override { step_of_.begin_backward(); }
  void end_backward(bool has_averaged) override { step_of_.end_backward(has_averaged); }
  void make_whole() override { step_of_.make_whole(); }
  void leave_whole() noexcept override { step_of_.leave_whole(); }
  void wait() override;
  void share_use(std::span<std::uint8_t> used) override;
  void forget(std::size_t bucket, std::size_t slot) override { unit_of(bucket).forget(slot); }
  void settle() noexcept override;
  /// On all ranks, with a hook; else the gradients of shards are asked.
  bool are_finite() const override { return are_finite_; }
  void set_loss_scale(float scale) noexcept { loss_scale_ = scale; }
  Span span(std::size_t bucket) const override { return spans_[bucket]; }
  std::string name_of(std::size_t bucket) const override { return step_of_.name_of(order_[bucket]); }
  const char* row() const override { return "units"; }
  std::chrono::nanoseconds take_waited() override {
    return std::exchange(waited_, std::chrono::nanoseconds(0)) + step_of_.take_exposed();
  }

 private:
  Unit& unit_of(std::size_t bucket) const { return step_of_.units()[order_[bucket]]; }
  void prepare() override;
  void take(std::size_t bucket, std::size_t slot, const at::Tensor& parameter) override;
  void start(std::size_t bucket) override;
  bool is_hooked(const Unit& unit) const {
    return hook_ && unit.gradients().buffer().dtype == DType::float32;
  }
  void finish_oldest();
  void agree_on_finite();
  void set_order(std::vector<std::size_t> units);

  ShardedStep& step_of_;
  Communicator data_;
  std::vector<std::size_t> firsts_;  ///< by unit: its first parameter among the reducer's
  std::vector<std::size_t> order_;   ///< by bucket: its unit
  std::vector<Span> spans_;          ///< by bucket
  std::vector<TensorWork> over_data_;
  std::size_t started_ = 0, scattered_ = 0;  ///< buckets
  std::chrono::nanoseconds waited_{0};

  const std::shared_ptr<GradientHook> hook_;
  float loss_scale_ = 1;
  bool are_finite_ = true;
  AveragingJob job_;
  std::optional<AveragingThread> thread_;
};

}  // namespace kolo::train
