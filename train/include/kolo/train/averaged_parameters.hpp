// AveragedParameters: evaluates the average of models that differ from rank to rank.
#pragma once

#include "kolo/train/libtorch.hpp"

#include <torch/nn/module.h>

#include <memory>

#include "kolo/communicator.hpp"

namespace kolo {

/// While one lives, the module holds the average over all ranks of its parameters and of its buffers of
/// floating-point numbers, the same bits on all ranks. Afterwards it holds this rank's own again:
///
///     {
///       const kolo::AveragedParameters averaged(*net, communicator);
///       evaluate(net);
///     }
///
/// Costs two copies of them. The tensors must not change type or shape meanwhile. Not thread-safe.
class AveragedParameters {
 public:
  /// Collective. All ranks throw as ModelAverager's constructor does, and then nothing has changed.
  AveragedParameters(const torch::nn::Module& module, const Communicator& communicator);
  ~AveragedParameters();
  AveragedParameters(const AveragedParameters&) = delete;
  AveragedParameters& operator=(const AveragedParameters&) = delete;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace kolo
