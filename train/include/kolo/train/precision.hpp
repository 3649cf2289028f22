// Computing in 16 bits: Autocast, and LossScaler for gradients that float16 would flush to zero.
#pragma once

#include "kolo/train/libtorch.hpp"

#include <ATen/core/Tensor.h>
#include <torch/optim/optimizer.h>
#include <torch/serialize/archive.h>

#include <cstdint>
#include <memory>

#include "kolo/train/parallel_model.hpp"

namespace kolo {

/// While it lives, libtorch casts the inputs of products and convolutions that this thread calls to bfloat16.
/// It is `at::autocast` (P. Micikevicius et al.: "Mixed Precision Training", ICLR 2018, section 3).
/// Parameters, their gradients and the optimizer's state stay float32, so DistributedDataParallel and the
/// optimizer need not know. Put it around forward and loss; backward() computes each operation as its forward
/// was.
///
///     {
///       const kolo::Autocast autocast;
///       loss = cross_entropy(model(images).to(at::kFloat), labels);
///     }
///     loss.backward();
///     optimizer.step();
///
/// libtorch keeps the weights that it has cast until autocast ends. Its own guard forgets them where the
/// outermost one ends, so that under an outer one, around the loop over steps for example, all steps compute
/// with the weights of the first. This one forgets them whenever one ends. Do not step the optimizer while
/// one lives.
///
/// May be nested; `Autocast(false)` computes a part of forward as its inputs are. Belongs to the thread that
/// makes it, and the replicas of a DataParallel, which are threads of their own, do not see it: make it in
/// the model's forward().
///
/// On CPUs there is no choice: products of float16 are missing in libtorch 1.13 and slow later. GPUs that
/// multiply float16 alone (before Ampere) take that, with a LossScaler.
class Autocast {
 public:
  /// From now on this thread computes products and convolutions in bfloat16, on GPUs in `dtype_on_gpus`; with
  /// `false`, as their inputs are.
  explicit Autocast(bool is_enabled = true, at::ScalarType dtype_on_gpus = at::kBFloat16);
  ~Autocast();
  Autocast(const Autocast&) = delete;
  Autocast& operator=(const Autocast&) = delete;

 private:
  struct State;
  std::unique_ptr<State> before_;
};

/// Whether this processor multiplies bfloat16 by instructions of its own (AVX-512 BF16, which processors with
/// AMX have too; false on anything but x86-64). Without them Autocast saves memory and is slower than
/// float32, as each product is made of float32 ones. Thread-safe.
bool has_bfloat16_products();

/// How a LossScaler finds its scale. The same on all ranks. Defaults are those of PyTorch's `GradScaler`.
struct LossScalerOptions {
  double initial_scale = 65536;  ///< of the first step; above 0, and finite as float32
  double growth_factor = 2;      ///< multiplies the scale after growth_interval steps; 1 or more
  std::uint64_t growth_interval =
      2000;                     ///< steps in a row without overflow before the scale grows; 1 or more
  double backoff_factor = 0.5;  ///< multiplies the scale after a step with overflow; above 0, below 1
};

/// Multiplies the loss by a factor that it adapts, so that gradients stay within the range of float16. Those
/// of less than 6e-8 are zero in float16, and those above 65504 infinite (P. Micikevicius et al.: "Mixed
/// Precision Training", ICLR 2018, section 3.2; PyTorch's `GradScaler`). For a model whose gradients are
/// averaged in float16 (`options.wire`, the hooks float16 and top_k...); bfloat16 has float32's range and
/// needs none.
///
///     kolo::LossScaler scaler(model, {});
///     scaler.scale(loss(model(images), labels)).backward();
///     scaler.step(optimizer);
///
/// Overflow on any rank, in the averages or in the gradient of a tensor of the optimizer that is not averaged
/// (ignored, or outside the model), skips the step on all ranks; the scale shrinks, and a hook has forgotten
/// a step of averages with overflow. A scale that is a power of two, with factors that are, changes no bit of
/// a gradient within range. Under no_sync() the scale stays until step(). Not thread-safe; the model must
/// outlive it.
class LossScaler {
 public:
  /// Collective. Throws InvalidArgumentError, on all ranks, for options out of range (scale and factors
  /// positive and finite, growth at least 1, backoff below 1), with overlap_forward, and with a hook with
  /// which ranks' averages differ; MismatchError where ranks' options differ.
  LossScaler(ParallelModel& model, const LossScalerOptions& options);

  /// The loss times the scale: call backward() on that.
  at::Tensor scale(const at::Tensor& loss);
  /// The factor of the next loss.
  double scale() const noexcept { return scale_; }

  /// Collective: divides the gradients of the optimizer's tensors by the scale, for clipping before step(),
  /// which does it otherwise. Once a step; returns whether they and the averages are finite on all ranks, and
  /// leaves them where they are not.
  bool unscale(torch::optim::Optimizer& optimizer);
  /// Collective: steps the optimizer with unscaled gradients and adapts the scale; skips the step where one
  /// of them is not finite, and returns false. Where the loss itself was infinite or NaN on some rank, no
  /// scale helps: throws Error on all ranks that names it, having changed nothing; zero the gradients before
  /// going on. Throws InvalidArgumentError, on all ranks, when overflows have shrunk the scale to what
  /// float32 takes for 0.
  bool step(torch::optim::Optimizer& optimizer);
  /// How many steps were left out because of overflow, since construction or since what load() has read.
  std::uint64_t skipped_steps() const noexcept { return skipped_; }

  /// For a Checkpoint: the scale, and the numbers of steps since its last change and left out. The same on
  /// all ranks. load() throws InvalidArgumentError where one of them is missing.
  void save(torch::serialize::OutputArchive& archive) const;
  void load(torch::serialize::InputArchive& archive);

 private:
  void set_scale(double scale);
  void require_finite_losses();

  ParallelModel& model_;
  LossScalerOptions options_;
  double scale_;
  std::uint64_t steps_since_change_ = 0;
  std::uint64_t skipped_ = 0;
  bool is_unscaled_ = false;
  bool is_finite_ = true;
  bool losses_are_finite_ = true;  ///< of this rank, since the last step
};

}  // namespace kolo
