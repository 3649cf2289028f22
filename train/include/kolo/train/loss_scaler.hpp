// LossScaler: a factor on the loss, so that small gradients survive averages in float16.
#pragma once

#include "kolo/train/libtorch.hpp"

#include <ATen/core/Tensor.h>
#include <torch/optim/optimizer.h>
#include <torch/serialize/archive.h>

#include <cstdint>

#include "kolo/train/distributed_data_parallel.hpp"

namespace kolo {

struct LossScalerOptions {
  double initial_scale = 65536;
  double growth_factor = 2;  ///< after so many steps without overflow
  std::uint64_t growth_interval = 2000;
  double backoff_factor = 0.5;  ///< after a step with overflow
};

/// Multiplies the loss by a factor that it adapts: gradients of less than 6e-8 are zero in float16, and those
/// above 65504 infinite (P. Micikevicius et al.: "Mixed Precision Training", ICLR 2018, section 3.2;
/// PyTorch's `GradScaler`). For a model whose gradients are averaged in float16 (`options.wire`, the hooks
/// float16 and top_k...); bfloat16 has float32's range and needs none.
///
///     kolo::LossScaler scaler(model, {});
///     scaler.scale(loss(model(images), labels)).backward();
///     scaler.step(optimizer);
///
/// Overflow shows in the averages, which are the same on all ranks, so ranks agree about it without a call:
/// the step is skipped on all of them, the scale shrinks, and a hook has forgotten the step. A scale that is
/// a power of two, with factors that are, changes no bit of a gradient within range. Under no_sync() the
/// scale stays until step(). Not thread-safe; the model must outlive it.
class LossScaler {
 public:
  /// Collective. Throws InvalidArgument, on all ranks, for options out of range (scale and factors positive
  /// and finite, growth at least 1, backoff below 1), with overlap_forward, and with a hook with which ranks'
  /// averages differ; MismatchError where ranks' options differ.
  LossScaler(DistributedDataParallelBase& model, const LossScalerOptions& options);

  /// The loss times the scale: call backward() on that.
  at::Tensor scale(const at::Tensor& loss);
  double scale() const noexcept { return scale_; }

  /// Divides the gradients by the scale, for clipping before step(), which does it otherwise. Once a step;
  /// returns whether they are finite, and leaves them where they are not.
  bool unscale();
  /// Steps the optimizer with unscaled gradients and adapts the scale; skips the step where an average is not
  /// finite, and returns false. Where the loss itself was infinite or NaN on some rank, no scale helps:
  /// throws Error on all ranks that names it, having changed nothing; zero the gradients before going on.
  bool step(torch::optim::Optimizer& optimizer);
  std::uint64_t skipped_steps() const noexcept { return skipped_; }

  void save(torch::serialize::OutputArchive& archive) const;
  void load(torch::serialize::InputArchive& archive);

 private:
  void set_scale(double scale);
  void require_finite_losses();

  DistributedDataParallelBase& model_;
  LossScalerOptions options_;
  double scale_;
  std::uint64_t steps_since_change_ = 0;
  std::uint64_t skipped_ = 0;
  bool is_unscaled_ = false;
  bool is_finite_ = true;
  bool losses_are_finite_ = true;  ///< of this rank, since the last step
};

}  // namespace kolo
