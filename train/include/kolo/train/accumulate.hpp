// Gradient accumulation: a batch in parts, one after the other, and one averaging over the ranks.
#pragma once

#include "kolo/train/libtorch.hpp"

#include <cstdint>
#include <functional>

#include "kolo/train/batch.hpp"
#include "kolo/train/distributed_data_parallel.hpp"

namespace kolo {

/// Forward and backward of a batch that does not fit memory, in `parts` of equal size:
///
///     optimizer.zero_grad();
///     const at::Tensor loss = kolo::accumulate(model, {images, labels}, 4, [&](const kolo::Batch& part) {
///       return cross_entropy(model(part[0]), part[1]);
///     });
///     optimizer.step();
///
/// `loss_of` returns the mean over the part's samples. All parts but the last are computed under no_sync(),
/// so the ranks average once. Gradients and the returned loss, which is without a graph, are those of the
/// whole batch, to rounding; but batch normalization sees one part at a time. All ranks must call it alike.
///
/// Throws InvalidArgumentError, before anything is computed, for fewer parts than 1, a batch without tensors,
/// tensors that differ in their number of samples, and a batch that cannot be divided into so many equal
/// parts; later for a loss that is no scalar; and what backward() throws.
at::Tensor accumulate(DistributedDataParallelBase& model, const Batch& batch, std::int64_t parts,
                      const std::function<at::Tensor(const Batch& part)>& loss_of);

/// How many samples a rank computes at once where `batch` samples make a step of all ranks. Throws
/// InvalidArgumentError, which names the numbers, unless ranks times parts divides it.
std::int64_t samples_per_part(std::int64_t batch, int ranks, std::int64_t parts);

}  // namespace kolo
