// BatchScatter: batches that one rank reads for all.
#pragma once

#include "kolo/train/libtorch.hpp"

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include "kolo/communicator.hpp"
#include "kolo/train/data.hpp"

namespace kolo::methods {

/// For data that one rank alone can reach. Rank 0 calls a function for each global batch and scatters it
/// along its first dimension: of n samples rank r of N gets those from n r / N to n (r + 1) / N. That is done
/// by a thread, one batch ahead, while the ranks train on the last one, on a communicator of its own. Rank
/// 0's link carries (N - 1) / N of all data. Not thread-safe.
class BatchScatter {
 public:
  /// The next global batch; nothing at the end. Dense CPU tensors of the types that buffer_of() takes. The
  /// other ranks wait for it no longer than the communicator's timeout.
  using Source = std::function<std::optional<Batch>()>;

  /// Collective. Rank 0's `source` is called by a thread; other ranks' is not used and may be empty. Throws
  /// InvalidArgumentError, on all ranks, where rank 0's is empty.
  BatchScatter(Communicator communicator, Source source);
  /// Collective, like next(): the first rank that ends ends it for all, and waits until the other ranks have
  /// asked for a batch or ended too.
  ~BatchScatter();
  BatchScatter(const BatchScatter&) = delete;
  BatchScatter& operator=(const BatchScatter&) = delete;

  /// Collective: this rank's part of the next global batch, which may have no samples; nothing at the end,
  /// from then on. Throws Error, on all ranks, with what the source threw or what is wrong with the batch, or
  /// that another rank has ended; and what collectives throw.
  std::optional<Batch> next();

 private:
  class Thread;
  std::unique_ptr<Thread> thread_;
};

}  // namespace kolo::methods
