// What wrappers of a model share: what their communication costs, and accumulation of gradients over batches.
#pragma once

#include "kolo/train/libtorch.hpp"

#include <chrono>
#include <cstdint>
#include <functional>

#include "kolo/train/data.hpp"

namespace kolo {

class DistributedDataParallelBase;

/// What communication cost in one step (a backward that averages gradients, or an average of the models) or,
/// added up, in many. Times are of this rank.
struct CommunicationStatistics {
  std::uint64_t steps = 0;        ///< backward passes that averaged, or averages of the models
  std::uint64_t all_reduces = 0;  ///< buckets that were averaged; with overlap_forward slices
  std::uint64_t sparse_sums = 0;  ///< tables whose rows were summed
  std::uint64_t bytes = 0;  ///< handed in: gradients (rows with indices) or models; Counters has those sent
  std::chrono::nanoseconds hidden{0};  ///< time in which a bucket or table was under way under backward
  /// Time in which backward was over and waited for buckets, tables and buffers. With overlap_forward the
  /// next forward waits.
  std::chrono::nanoseconds exposed{0};

  /// Adds each number of `other`.
  CommunicationStatistics& operator+=(const CommunicationStatistics& other) noexcept {
    steps += other.steps;
    all_reduces += other.all_reduces;
    sparse_sums += other.sparse_sums;
    bytes += other.bytes;
    hidden += other.hidden;
    exposed += other.exposed;
    return *this;
  }
};

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
