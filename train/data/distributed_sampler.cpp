#include "kolo/train/distributed_sampler.hpp"

#include <torch/serialize/archive.h>

#include <numeric>
#include <random>
#include <string>
#include <utility>

#include "kolo/error.hpp"

namespace kolo {
namespace {

/// Fisher-Yates. Not std::shuffle: its order differs between standard libraries, and ranks may run different
/// ones.
void shuffle(std::vector<std::int64_t>& values, std::uint64_t seed, std::uint64_t epoch) {
  // seed_seq and the engines are fixed by the standard; distributions are not.
  std::seed_seq seeds{static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32),
                      static_cast<std::uint32_t>(epoch), static_cast<std::uint32_t>(epoch >> 32)};
  std::mt19937_64 random(seeds);
  for (std::size_t i = values.size(); i > 1; --i) {
    // The bias of the modulo is below size / 2^64.
    std::swap(values[i - 1], values[random() % i]);
  }
}

}  // namespace

DistributedSampler::DistributedSampler(std::int64_t size, int rank, int ranks,
                                       const DistributedSamplerOptions& options)
    : size_(size), rank_(rank), ranks_(ranks), options_(options) {
  if (size < 0) throw InvalidArgument("a data set cannot have " + std::to_string(size) + " samples", {});
  if (ranks < 1 || rank < 0 || rank >= ranks) {
    throw InvalidArgument("there is no rank " + std::to_string(rank) + " of " + std::to_string(ranks), {});
  }
}

std::int64_t DistributedSampler::samples_per_rank() const noexcept {
  return options_.drop_last ? size_ / ranks_ : (size_ + ranks_ - 1) / ranks_;
}

void DistributedSampler::save(torch::serialize::OutputArchive& archive) const {
  archive.write("epoch", c10::IValue(static_cast<std::int64_t>(epoch_)));
}

void DistributedSampler::load(torch::serialize::InputArchive& archive) {
  c10::IValue epoch;
  archive.read("epoch", epoch);
  epoch_ = static_cast<std::uint64_t>(epoch.toInt());
}

std::vector<std::int64_t> DistributedSampler::indices() const {
  std::vector<std::int64_t> order(static_cast<std::size_t>(size_));
  std::iota(order.begin(), order.end(), std::int64_t{0});
  if (options_.shuffle) shuffle(order, options_.seed, epoch_);
  std::vector<std::int64_t> mine(static_cast<std::size_t>(samples_per_rank()));
  for (std::size_t k = 0; k < mine.size(); ++k) {
    // Beyond the end the order starts again; with fewer samples than ranks that may be more than once.
    mine[k] = order[(k * static_cast<std::size_t>(ranks_) + static_cast<std::size_t>(rank_)) % order.size()];
  }
  return mine;
}

}  // namespace kolo
