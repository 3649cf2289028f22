// How data reaches the ranks: which samples each of them takes.
#pragma once

#include "kolo/train/libtorch.hpp"

#include <torch/data/samplers/base.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

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

  /// Where this rank is.
  struct Position {
    std::uint64_t epoch;     ///< as epoch()
    std::int64_t taken;      ///< samples that all ranks had taken before the state was loaded
    std::size_t taken_here;  ///< samples that next() has given since
    bool has_ended;          ///< reset() goes on to the next epoch
    bool is_loaded;          ///< reset() goes on within this one
  };
  /// For seek().
  Position position() const noexcept;
  /// Goes back to where it was, as if next() and set_epoch() had not been called since.
  void seek(const Position& position);

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

}  // namespace kolo
