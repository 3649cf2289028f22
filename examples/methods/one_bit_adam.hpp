// OneBitAdam: Adam that sends the signs of momenta, once the second moment has come to rest.
#pragma once

#include "kolo/train/libtorch.hpp"

#include <torch/optim/adam.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "kolo/train/distributed_data_parallel.hpp"
#include "kolo/train/hooks.hpp"

namespace kolo::methods {

/// Settings of a OneBitAdam. The same on all ranks.
struct OneBitAdamOptions {
  /// Steps of the warm-up, 1 or more, the same on all ranks. The paper takes 15 to 20 % of all steps.
  std::uint64_t freeze_after_steps = 0;
  /// Momenta are sent in buckets, each of so many bytes of float32 or more.
  std::uint64_t bucket_bytes = 25u << 20;
};

/// Adam that sends one bit for each number, once the second moment has come to rest. H. Tang et al., "1-bit
/// Adam: Communication Efficient Large-Scale Training with Adam's Convergence Speed", ICML 2021, algorithm 1:
///
///     kolo::DistributedDataParallel model(Net(), communicator);
///     kolo::methods::OneBitAdam optimizer(model, torch::optim::AdamOptions(1e-3), {.freeze_after_steps =
///     500});
///     ...
///     optimizer.zero_grad();
///     loss(model(images), labels).backward();
///     optimizer.step();                              // collective
///
/// In its warm-up it is torch::optim::Adam, bit for bit, and backward() averages gradients as it does under
/// any optimizer. Then the second moment v is frozen, with its bias correction, so that the freeze changes no
/// step's size. From there on the optimizer holds the model's no_sync(): backward() leaves gradients local,
/// and step() makes, of the momentum m that all ranks share,
///
///     g = gradient of this rank + weight_decay parameter
///     m of this rank = beta1 m + (1 - beta1) g / (max(sqrt(v), sqrt(1 - beta2) |g|) + eps)
///     m = average of all ranks' m, by the gradient hook "one_bit" (compression.hpp)
///     parameter -= lr / (1 - beta1^step) m
///
/// All ranks hold the same bits of m, and so of parameters. What signs leave out is added to later momenta:
/// see hook(). Two things differ from the paper, which sends the momentum and divides it by sqrt(v)
/// afterwards. Signs share one magnitude, so that numbers of one scale are sent: those divided already.
/// And where v is zero or tiny, after a warm-up without gradients there, a gradient counts for no more than
/// in Adam, whose v is no less than (1 - beta2) g^2.
///
/// A step for which a gradient of any rank is not finite is skipped by all ranks and changes nothing.
/// Learning rates may change at any time, on all ranks alike. Gradients may be clipped or scaled before
/// step(); after the freeze they are this rank's. A parameter without a gradient counts as zero then. Buffers
/// (of batch normalization, say) are no longer copied from rank 0 after the freeze. Not thread-safe.
class OneBitAdam : public torch::optim::Adam {
 public:
  /// Collective. Takes all parameters whose gradients `model` averages; the model must outlive it. Throws, on
  /// all ranks, InvalidArgumentError for options of any rank that are out of their range, amsgrad,
  /// parameters with sparse gradients or of another type than float32, a model with a hook with which ranks'
  /// parameters differ, and where model.check() does; MismatchError where ranks' options differ.
  OneBitAdam(DistributedDataParallelBase& model, const torch::optim::AdamOptions& adam,
             const OneBitAdamOptions& options);
  /// The same with parameter groups, which together hold each of these parameters once. Frozen parameters
  /// may be in them too. Throws InvalidArgumentError also where they do not.
  OneBitAdam(DistributedDataParallelBase& model, std::vector<torch::optim::OptimizerParamGroup> groups,
             const torch::optim::AdamOptions& defaults, const OneBitAdamOptions& options);
  ~OneBitAdam() override;

  /// Collective after the freeze. Throws InvalidArgumentError in the warm-up where backward() has averaged
  /// nothing since the last step; after the freeze for sparse gradients and for parameters that were added to
  /// groups. What one rank throws after the freeze, and errors of the communicator, end training on all
  /// ranks.
  at::Tensor step(LossClosure closure = nullptr) override;

  /// Whether the warm-up is over.
  bool is_frozen() const noexcept;
  /// False where the last step was skipped, which is the same on all ranks.
  bool last_step_counted() const noexcept;

  /// What sends the momenta. Its state, what they have left out, is this rank's own.
  GradientHook& hook() noexcept;

  /// With the moments, the phase and the hook's state. After the freeze exp_avg is m, and exp_avg_sq v.
  void save(torch::serialize::OutputArchive& archive) const override;
  /// The inverse; takes what torch::optim::Adam has saved too. The hook's state is taken where this rank, of
  /// as many ranks, has saved it; else the hook begins anew. So kolo::broadcast() brings what all ranks
  /// share. A Checkpoint holds the states of all ranks' hooks if hook() is added to it, after the optimizer.
  void load(torch::serialize::InputArchive& archive) override;

 private:
  struct State;
  std::unique_ptr<State> one_bit_;
};

}  // namespace kolo::methods
