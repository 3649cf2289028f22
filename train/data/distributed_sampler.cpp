#include "kolo/train/data.hpp"

#include <torch/serialize/archive.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <random>
#include <string>
#include <utility>

#include "kolo/error.hpp"

namespace kolo {
namespace {

/// Fisher-Yates, the same on every machine and with every compiler. Not std::shuffle, whose order differs
/// between standard libraries: ranks may run different ones.
void shuffle(std::vector<std::int64_t>& values, std::uint64_t seed, std::uint64_t epoch) {
  // seed_seq and the engines are fixed by the standard; distributions are not.
  std::seed_seq seeds{static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32),
                      static_cast<std::uint32_t>(epoch), static_cast<std::uint32_t>(epoch >> 32)};
  std::mt19937_64 random(seeds);
  // The bias of the modulo is below size / 2^64.
  for (std::size_t i = values.size(); i > 1; --i) std::swap(values[i - 1], values[random() % i]);
}

}  // namespace

/// What the copies of a sampler share.
struct DistributedSampler::State {
  std::int64_t size;
  std::uint64_t epoch = 0;
  std::int64_t taken = 0;    ///< of the epoch, by all ranks, before it was loaded
  std::size_t position = 0;  ///< in order
  std::vector<std::int64_t> order =
      {};                  ///< this rank's of what was not taken; empty until they are asked for
  bool has_ended = false;  ///< the next reset() goes on to another epoch
  bool is_loaded = false;  ///< the next reset() goes on within this one
};

DistributedSampler::DistributedSampler(std::int64_t size, int rank, int ranks,
                                       const DistributedSamplerOptions& options)
    : state_(std::make_shared<State>(State{.size = size})), rank_(rank), ranks_(ranks), options_(options) {
  if (size < 0) throw InvalidArgumentError("a data set cannot have " + std::to_string(size) + " samples", {});
  if (ranks < 1 || rank < 0 || rank >= ranks) {
    throw InvalidArgumentError("there is no rank " + std::to_string(rank) + " of " + std::to_string(ranks),
                               {});
  }
}

void DistributedSampler::set_epoch(std::uint64_t epoch) {
  *state_ = {.size = state_->size, .epoch = epoch};
}

std::uint64_t DistributedSampler::epoch() const noexcept {
  return state_->epoch;
}

std::int64_t DistributedSampler::samples_per_rank() const noexcept {
  return share_of(state_->size);
}

std::int64_t DistributedSampler::share_of(std::int64_t samples) const noexcept {
  return options_.drop_last ? samples / ranks_ : (samples + ranks_ - 1) / ranks_;
}

DistributedSampler::Position DistributedSampler::position() const noexcept {
  return {state_->epoch, state_->taken, state_->position, state_->has_ended, state_->is_loaded};
}

void DistributedSampler::seek(const Position& to) {
  if (to.epoch != state_->epoch || to.taken != state_->taken) state_->order.clear();
  state_->epoch = to.epoch;
  state_->taken = to.taken;
  state_->position = to.taken_here;
  state_->has_ended = to.has_ended;
  state_->is_loaded = to.is_loaded;
}

void DistributedSampler::reset(train::SamplerSize size) {
  if (size.has_value()) {
    if (*size > static_cast<std::size_t>(std::numeric_limits<std::int64_t>::max()))
      throw InvalidArgumentError("a data set cannot have " + std::to_string(*size) + " samples", {});
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
  state.is_loaded = false;  // the caller goes on within the epoch without a reset()
  const std::size_t end = std::min(state.order.size(), state.position + count);
  if (state.position >= end) return {};
  std::vector<std::size_t> batch(state.order.begin() + static_cast<std::ptrdiff_t>(state.position),
                                 state.order.begin() + static_cast<std::ptrdiff_t>(end));
  state.position = end;
  return batch;
}

std::string DistributedSampler::description() const {
  return std::to_string(state_->size) + " samples, seed " + std::to_string(options_.seed) + ", shuffle " +
         (options_.shuffle ? "true" : "false") + ", drop_last " + (options_.drop_last ? "true" : "false");
}

void DistributedSampler::save(torch::serialize::OutputArchive& archive) const {
  const auto write = [&archive](const char* name, const c10::IValue& value) { archive.write(name, value); };
  write("epoch", static_cast<std::int64_t>(state_->epoch));
  // All ranks have taken as many, so that any number of them may go on.
  write("taken", state_->taken + static_cast<std::int64_t>(state_->position) * ranks_);
  write("sampler", description());
}

void DistributedSampler::load(torch::serialize::InputArchive& archive) {
  load_or_refuse("DistributedSampler", [&] {
    c10::IValue epoch, taken(std::int64_t{0}), position, sampler(description());
    archive.read("epoch", epoch);
    if (!archive.try_read("taken", taken) && archive.try_read("position", position))
      taken = position.toInt() * ranks_;  // an older file, which does not say of how many ranks and samples
    archive.try_read("sampler", sampler);
    if (sampler.toStringRef() != description()) {
      throw InvalidArgumentError("the state is that of a DistributedSampler of " + sampler.toStringRef() +
                                     ", and this one is of " + description(),
                                 {});
    }
    set_epoch(static_cast<std::uint64_t>(epoch.toInt()));
    state_->taken = taken.toInt();
    state_->is_loaded = state_->taken > 0;
  });
}

std::vector<std::int64_t> DistributedSampler::indices() const {
  std::vector<std::int64_t> order(static_cast<std::size_t>(state_->size));
  std::iota(order.begin(), order.end(), std::int64_t{0});
  if (options_.shuffle) shuffle(order, options_.seed, state_->epoch);
  const std::int64_t left = std::max<std::int64_t>(0, state_->size - state_->taken);
  std::vector<std::int64_t> mine(static_cast<std::size_t>(share_of(left)));
  const auto first = static_cast<std::size_t>(state_->taken + rank_);
  for (std::size_t k = 0; k < mine.size(); ++k) {
    // Beyond the end the order starts again; with fewer samples than ranks that may be more than once.
    mine[k] = order[(first + k * static_cast<std::size_t>(ranks_)) % order.size()];
  }
  return mine;
}

}  // namespace kolo
