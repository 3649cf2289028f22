// DistributedSampler: which samples of a data set each rank sees in an epoch.
#pragma once

#include <cstdint>
#include <vector>

namespace torch::serialize {
class InputArchive;
class OutputArchive;
}  // namespace torch::serialize

namespace kolo {

struct DistributedSamplerOptions {
  bool shuffle = true;
  std::uint64_t seed = 0;
  /// Where the data set does not divide by the ranks: true drops the tail, false repeats samples from the
  /// start of the epoch's order, so that every rank has the same number either way.
  bool drop_last = false;
};

/// Deals the indices 0 to size - 1 of a data set to the ranks, one after the other: of the epoch's order,
/// rank r gets the positions r, r + ranks, r + 2 ranks, ... So when every rank takes the same number of
/// samples per step, the union over the ranks is the same for every number of ranks: the global batch. The
/// order depends on seed and epoch alone, on every machine and with every compiler. Not thread-safe.
class DistributedSampler {
 public:
  /// Throws InvalidArgument unless 0 <= rank < ranks and size >= 0.
  DistributedSampler(std::int64_t size, int rank, int ranks, const DistributedSamplerOptions& options = {});

  /// Call with the same number on all ranks before each epoch; without it each epoch has the same order.
  void set_epoch(std::uint64_t epoch) noexcept { epoch_ = epoch; }
  std::uint64_t epoch() const noexcept { return epoch_; }
  /// This rank's indices for the epoch; samples_per_rank() of them.
  std::vector<std::int64_t> indices() const;
  /// The same on all ranks.
  std::int64_t samples_per_rank() const noexcept;

  /// The epoch, for checkpoints.
  void save(torch::serialize::OutputArchive& archive) const;
  void load(torch::serialize::InputArchive& archive);

 private:
  std::int64_t size_;
  int rank_;
  int ranks_;
  DistributedSamplerOptions options_;
  std::uint64_t epoch_ = 0;
};

}  // namespace kolo
