// SyncBatchNorm: batch normalization over the batches of all ranks.
#pragma once

#include "kolo/train/libtorch.hpp"

#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/pimpl.h>

#include <functional>
#include <iosfwd>
#include <utility>

#include "kolo/communicator.hpp"

namespace kolo {

/// Batch normalization over the batches of all ranks. It is torch::nn::BatchNorm1d, 2d and 3d in one, whose
/// mean and variance in training are those of the samples of all ranks together (S. Ioffe, C. Szegedy: "Batch
/// Normalization", ICML 2015, over the global batch), as torch.nn.SyncBatchNorm: what one process does with
/// the whole batch, whatever the number of ranks and however few samples each has; they may differ, and a
/// rank may have none. In evaluation it is BatchNorm, without a call. Parameters, buffers and their names are
/// BatchNorm's, so either loads what the other has saved.
///
///     kolo::SyncBatchNorm norm(torch::nn::BatchNormOptions(64), communicator);
///
/// In training forward() and backward() are collective: a small all_gather and a small all_reduce on the
/// communicator that it was made with, in the order in which the model uses its layers.
/// DistributedDataParallel's calls cannot come between, as it has a communicator of its own. Second
/// derivatives (create_graph) are refused with InvalidArgumentError. Not thread-safe.
class SyncBatchNormImpl : public torch::nn::NormImplBase<1, SyncBatchNormImpl, torch::nn::BatchNormOptions> {
 public:
  /// Not collective. Takes torch::nn::BatchNorm's options, and calls `communicator` in training. Throws
  /// InvalidArgumentError for less than one feature, and a communicator that is not valid.
  SyncBatchNormImpl(const torch::nn::BatchNormOptions& options, Communicator communicator);

  /// `input` [samples, features, ...]; float16 and bfloat16 are computed in float32. Throws
  /// InvalidArgumentError for another shape, or in training where all ranks together have no two values a
  /// feature.
  at::Tensor forward(const at::Tensor& input);
  /// In backward, `factor` gives what this rank's loss counts beside those of the other ranks, which
  /// multiplies its gradients later on: join() sets it. Empty: ranks' losses count alike.
  void set_loss_factor(std::function<double()> factor) { loss_factor_ = std::move(factor); }
  /// Writes the number of features and eps in one line; libtorch calls it to print a model.
  void pretty_print(std::ostream& stream) const override;

 private:
  void _check_input_dim(const at::Tensor& input) override;

  Communicator communicator_;
  std::function<double()> loss_factor_;
};
TORCH_MODULE(SyncBatchNorm);

}  // namespace kolo
