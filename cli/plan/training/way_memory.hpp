// The memory that a rank needs to train in a way.
#pragma once

#include "plan/training/job.hpp"

namespace kolo::plan {

/// Bytes of the rank that needs most, at the moment of a step at which that is most.
struct WayMemory {
  double parameters = 0;
  double gradients = 0;
  double optimizer = 0;
  double activations = 0;  ///< of all micro-batches under way

  double total() const { return parameters + gradients + optimizer + activations; }
};

/// For P parameters of float32 on a rank, S bytes of optimizer state for each, N replicas:
///
///     nothing divided    4P + 4P + SP
///     optimizer_state    4P + 4P + SP/N
///     gradients          4P + 4P/N + SP/N, and in backward the gradients of three units
///     parameters         (4P + 4P + SP)/N, two units of parameters, and in backward the gradients of three
///
/// (S. Rajbhandari et al.: "ZeRO: Memory Optimizations Toward Training Trillion Parameter Models", SC 2020,
/// section 5; units as ShardedDataParallel moves them, here the layers.)
///
/// Stage i (from 0) of p, which holds its own layers, keeps the activations of min(p - i, m) micro-batches:
/// one-forward-one-backward (D. Narayanan et al.: "PipeDream: Generalized Pipeline Parallelism for DNN
/// Training", SOSP 2019, section 3.2; with a flush: "Efficient Large-Scale Language Model Training on GPU
/// Clusters Using Megatron-LM", SC 2021, section 2.2).
///
/// Each of t ranks that share a layer keeps a t-th of its parameters and activations, but all of its input
/// (M. Shoeybi et al.: "Megatron-LM", 2019, section 3; V. Korthikanti et al.: "Reducing Activation
/// Recomputation in Large Transformer Models", MLSys 2023, section 4.2.1).
///
/// Without the program and its libraries, temporary memory of operators, and buffers of messages.
WayMemory memory_of(const Job& job, const Way& way);

/// The parameters of layer `index` that a rank holds, or moves, before they are divided among replicas.
double parameters_on_rank(const ModelProfile& profile, const Way& way, std::size_t index);

}  // namespace kolo::plan
