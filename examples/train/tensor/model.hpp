// A small transformer whose layers or whose sequences are divided among ranks.
#pragma once

#include "kolo/train/libtorch.hpp"

#include <torch/nn/module.h>
#include <torch/nn/modules/container/sequential.h>

#include "kolo/communicator.hpp"
#include "kolo/train/mixture_of_experts.hpp"
#include "language_model/windows.hpp"
#include "tensor/options.hpp"

namespace tensor {

inline constexpr std::int64_t kBytes = 256;

/// All modes have the layers `embedding`, `block_1` ... and `head`, and the same parameters but for experts.
struct ModelImpl : torch::nn::Module {
  /// Collective. Throws kolo's errors, on all ranks, where the ranks cannot divide the shape.
  ModelImpl(const Options& options, kolo::Communicator group);

  /// Scores of the byte after each of `bytes`, int64 [n, context]: with ulysses and ring of this rank's
  /// places, of the others this rank's part of the vocabulary.
  at::Tensor forward(const at::Tensor& bytes);
  /// The mean loss, in nats, of what forward() returned: with ulysses and ring over this rank's places.
  at::Tensor loss(const at::Tensor& scores, const at::Tensor& targets) const;

  /// What is added to the loss in training so that experts are used alike; undefined in other modes.
  at::Tensor balance_loss() const;

  /// Whether parameters are replicated, and the ranks' gradients have to be averaged.
  bool divides_sequences_only() const;

  torch::nn::Sequential layers;

 private:
  Options options_;
  kolo::Communicator group_;
  std::vector<kolo::MixtureOfExperts> experts_;
};
TORCH_MODULE(Model);

}  // namespace tensor
