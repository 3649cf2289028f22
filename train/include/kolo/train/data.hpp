// How data reaches the ranks: samplers, files of samples, batches from one rank.
#pragma once

#include "kolo/train/libtorch.hpp"

#include <torch/data/samplers/base.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "kolo/communicator.hpp"

namespace kolo {

/// Tensors whose first dimension counts samples, the same number in each: images and labels, say.
using Batch = std::vector<at::Tensor>;

namespace train {

using SamplerBase = torch::data::samplers::Sampler<std::vector<std::size_t>>;
/// libtorch's versions have optionals of their own, or the standard library's.
template <typename Argument>
Argument argument_of(void (SamplerBase::*)(Argument));
using SamplerSize = decltype(argument_of(&SamplerBase::reset));
using SamplerBatch = decltype(std::declval<SamplerBase&>().next(0));

}  // namespace train

/// Settings of a DistributedSampler. The same on all ranks, else ranks see some samples twice and others
/// never.
struct DistributedSamplerOptions {
  bool shuffle = true;     ///< each epoch has another order; else samples come by their numbers
  std::uint64_t seed = 0;  ///< draws the orders, together with the epoch's number
  /// Where the data set does not divide by the ranks: true drops the tail, false repeats samples from the
  /// start of the epoch's order, so that every rank has the same number either way.
  bool drop_last = false;
};

/// Deals the indices 0 to size - 1 of a data set to the ranks, one after the other. Of the epoch's order,
/// rank r gets the positions r, r + ranks, r + 2 ranks, ... So when every rank takes the same number of
/// samples per step, the union over the ranks is the same for every number of ranks: the global batch. The
/// order depends on seed and epoch alone, on every machine and with every compiler. Not thread-safe.
///
/// Take indices() of each epoch, or give the sampler to torch::data::make_data_loader(). Copies share epoch
/// and position, as a data loader keeps a copy:
///
///     kolo::DistributedSampler sampler(size, communicator.rank(), communicator.size());
///     auto loader = torch::data::make_data_loader(dataset.map(Stack<>()), sampler, DataLoaderOptions(64));
///     for (int epoch = 0; epoch < 10; ++epoch)
///       for (auto& batch : *loader) ...                     // a new order in each epoch
class DistributedSampler : public train::SamplerBase {
 public:
  /// Throws InvalidArgumentError unless 0 <= rank < ranks and size >= 0.
  DistributedSampler(std::int64_t size, int rank, int ranks, const DistributedSamplerOptions& options = {});

  /// Call with the same number on all ranks before each epoch; without it indices() are those of the epoch
  /// before, and reset() goes on to the next.
  void set_epoch(std::uint64_t epoch);
  /// The epoch that indices() and next() are about, from 0.
  std::uint64_t epoch() const noexcept;
  /// This rank's indices for the epoch, samples_per_rank() of them; its share of what was left of an epoch
  /// that was loaded.
  std::vector<std::int64_t> indices() const;
  /// How many samples each rank has in an epoch, the same on all ranks: size / ranks, rounded down with
  /// drop_last and up without.
  std::int64_t samples_per_rank() const noexcept;

  /// A data loader calls it when an epoch begins. The epoch is the one after that which next() was last
  /// called in, or what set_epoch() has said since. After load() it changes nothing, so that an epoch goes on
  /// where it was. The data set may have got another size; throws InvalidArgumentError where that is more
  /// than int64_t holds.
  void reset(train::SamplerSize size = {}) override;
  /// The next indices of this rank in the epoch, `count` of them or what is left; nothing after the last.
  train::SamplerBatch next(std::size_t count) override;

  /// Epoch and position, for checkpoints; all ranks must have taken as many. Any number of ranks may load
  /// them and goes on with what is left of the epoch, in its order. load() throws InvalidArgumentError for a
  /// state of another size, seed or options. A data loader with workers asks for batches ahead of those that
  /// it gives out.
  void save(torch::serialize::OutputArchive& archive) const override;
  void load(torch::serialize::InputArchive& archive) override;

 private:
  std::string description() const;
  std::int64_t share_of(std::int64_t samples) const noexcept;

  struct State;
  std::shared_ptr<State> state_;
  int rank_;
  int ranks_;
  DistributedSamplerOptions options_;
};

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

}  // namespace kolo
