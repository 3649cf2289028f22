#include "kolo/train/distributed_sampler.hpp"

#include <torch/serialize/archive.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <string>
#include <utility>

#include "data/shuffle.hpp"
#include "kolo/error.hpp"

namespace kolo {
/// What the copies of a sampler share.
struct DistributedSampler::State {
  std::int64_t size;
  std::uint64_t epoch = 0;
  std::size_t position = 0;              ///< in order
  std::vector<std::int64_t> order = {};  ///< this rank's indices of the epoch; empty until they are asked for
  bool has_ended = false;                ///< the next reset() goes on to another epoch
  bool is_loaded = false;                ///< the next reset() goes on within this one
};

DistributedSampler::DistributedSampler(std::int64_t size, int rank, int ranks,
                                       const DistributedSamplerOptions& options)
    : state_(std::make_shared<State>(State{.size = size})), rank_(rank), ranks_(ranks), options_(options) {
  if (size < 0) throw InvalidArgument("a data set cannot have " + std::to_string(size) + " samples", {});
  if (ranks < 1 || rank < 0 || rank >= ranks) {
    throw InvalidArgument("there is no rank " + std::to_string(rank) + " of " + std::to_string(ranks), {});
  }
}

void DistributedSampler::set_epoch(std::uint64_t epoch) {
  *state_ = {.size = state_->size, .epoch = epoch};
}

std::uint64_t DistributedSampler::epoch() const noexcept {
  return state_->epoch;
}

std::int64_t DistributedSampler::samples_per_rank() const noexcept {
  return options_.drop_last ? state_->size / ranks_ : (state_->size + ranks_ - 1) / ranks_;
}

void DistributedSampler::reset(train::SamplerSize size) {
  if (size.has_value()) {
    if (*size > static_cast<std::size_t>(std::numeric_limits<std::int64_t>::max()))
      throw InvalidArgument("a data set cannot have " + std::to_string(*size) + " samples", {});
    state_->size = static_cast<std::int64_t>(*size);
    state_->order.clear();
  }
  if (std::exchange(state_->is_loaded, false)) return;
  set_epoch(state_->epoch + (state_->has_ended ? 1 : 0));
}

train::SamplerBatch DistributedSampler::next(std::size_t count) {
  State& state = *state_;
  if (state.order.empty()) state.order = indices();
  state.has_ended = true;
  const std::size_t end = std::min(state.order.size(), state.position + count);
  if (state.position >= end) return {};
  std::vector<std::size_t> batch(state.order.begin() + static_cast<std::ptrdiff_t>(state.position),
                                 state.order.begin() + static_cast<std::ptrdiff_t>(end));
  state.position = end;
  return batch;
}

void DistributedSampler::save(torch::serialize::OutputArchive& archive) const {
  archive.write("epoch", c10::IValue(static_cast<std::int64_t>(state_->epoch)));
  archive.write("position", c10::IValue(static_cast<std::int64_t>(state_->position)));
}

void DistributedSampler::load(torch::serialize::InputArchive& archive) {
  c10::IValue epoch, position(std::int64_t{0});
  archive.read("epoch", epoch);
  archive.try_read("position", position);  // older files have none
  set_epoch(static_cast<std::uint64_t>(epoch.toInt()));
  state_->position = static_cast<std::size_t>(position.toInt());
  state_->is_loaded = state_->position > 0;
}

std::vector<std::int64_t> DistributedSampler::indices() const {
  std::vector<std::int64_t> order(static_cast<std::size_t>(state_->size));
  std::iota(order.begin(), order.end(), std::int64_t{0});
  if (options_.shuffle) train::shuffle(order, options_.seed, state_->epoch);
  std::vector<std::int64_t> mine(static_cast<std::size_t>(samples_per_rank()));
  for (std::size_t k = 0; k < mine.size(); ++k) {
    // Beyond the end the order starts again; with fewer samples than ranks that may be more than once.
    mine[k] = order[(k * static_cast<std::size_t>(ranks_) + static_cast<std::size_t>(rank_)) % order.size()];
  }
  return mine;
}

}  // namespace kolo
