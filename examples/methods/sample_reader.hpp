// SampleReader: batches out of files of samples, of which each rank reads its own.
#pragma once

#include "kolo/train/libtorch.hpp"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "kolo/train/data.hpp"

namespace kolo::methods {

/// Writes `samples` (see Batch) as `shards` files of as equal sizes as can be, in an order drawn by `seed`,
/// into `folder`, which is made where it is missing: shard-0.pt, shard-1.pt, ..., and index.pt, which says
/// how many samples each has. Throws InvalidArgumentError for tensors of different first dimensions and for
/// fewer samples than shards, Error that names the file where one cannot be written.
void write_samples(const Batch& samples, const std::string& folder, std::int64_t shards,
                   std::uint64_t seed = 0);

/// Settings of a SampleReader. The same on all ranks.
struct SampleReaderOptions {
  bool shuffle = true;     ///< the rank's shards, and the samples of each, have a new order in each epoch
  std::uint64_t seed = 0;  ///< draws the orders, together with the numbers of epoch and shard
  /// All ranks get the same number of full batches, and what is left over is skipped. False: each rank gets
  /// all its samples, the last batch may be smaller; see DistributedDataParallelBase::join().
  bool drop_uneven = true;
};

/// Reads what write_samples() wrote. Rank r owns the shards r, r + ranks, r + 2 ranks, ..., in every epoch,
/// so a host needs no other files than index.pt and those of its ranks. Samples never meet those of other
/// ranks' shards in another way than in the global batch: write many shards of well mixed samples. One shard
/// is read ahead, by a thread, while the one before is given out; two are in memory. Not thread-safe.
class SampleReader {
 public:
  /// Throws InvalidArgumentError unless 0 <= rank < ranks and batch >= 1, and where there are fewer shards
  /// than ranks; Error that names the file where index.pt cannot be read.
  SampleReader(const std::string& folder, int rank, int ranks, std::int64_t batch,
               const SampleReaderOptions& options = {});
  ~SampleReader();
  SampleReader(const SampleReader&) = delete;
  SampleReader& operator=(const SampleReader&) = delete;

  /// Begins that epoch. The first is 0 without it; after an epoch's end next() goes on with the next.
  void set_epoch(std::uint64_t epoch);
  /// The epoch that next() reads from, or begins, from 0.
  std::uint64_t epoch() const noexcept;
  /// How many batches this rank gets in an epoch; with drop_uneven the same on all ranks, 0 if one rank has
  /// fewer samples than a batch.
  std::int64_t batches_per_epoch() const noexcept;
  /// The next `batch` samples; nothing, once, at the end of an epoch. Throws Error that names the file where
  /// a shard cannot be read or is not what index.pt says. No sample is lost by that: a further call reads the
  /// shard again, and throws again or goes on.
  std::optional<Batch> next();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// How many samples a batch has. Throws InvalidArgumentError unless there are tensors, as long as each other
/// along their first dimension.
std::int64_t samples_of(const Batch& batch);

}  // namespace kolo::methods
