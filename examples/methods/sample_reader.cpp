#include "methods/sample_reader.hpp"

#include <ATen/Functions.h>
#include <c10/core/GradMode.h>
#include <torch/serialize.h>

#include <algorithm>
#include <filesystem>
#include <future>
#include <vector>

#include "kolo/error.hpp"

namespace kolo::methods {
namespace {

std::string shard_path(const std::string& folder, std::int64_t shard) {
  return std::filesystem::path(folder) / ("shard-" + std::to_string(shard) + ".pt");
}
std::string index_path(const std::string& folder) {
  return std::filesystem::path(folder) / "index.pt";
}

void write_tensors(const Batch& tensors, const std::string& path) {
  if (const std::string problem = problem_of([&] { torch::save(tensors, path); }); !problem.empty())
    throw Error("cannot write " + path + ": " + problem, {});
}

Batch read_tensors(const std::string& path) {
  Batch tensors;
  if (const std::string problem = problem_of([&] { torch::load(tensors, path); }); !problem.empty())
    throw Error("cannot read " + path + ": " + problem, {});
  return tensors;
}

Batch rows_of(const Batch& samples, const std::vector<std::int64_t>& rows) {
  const at::Tensor index = at::tensor(rows);
  Batch selected;
  for (const at::Tensor& tensor : samples) selected.push_back(tensor.index_select(0, index));
  return selected;
}

/// 0 to count - 1, in an order of their own.
std::vector<std::int64_t> shuffled(std::int64_t count, std::uint64_t seed, std::uint64_t epoch) {
  DistributedSampler all(count, 0, 1, {.seed = seed});
  all.set_epoch(epoch);
  return all.indices();
}

}  // namespace

std::int64_t samples_of(const Batch& batch) {
  if (batch.empty()) throw InvalidArgumentError("a batch has no tensors", {});
  const auto is_alike = [&](const at::Tensor& tensor) {
    return tensor.defined() && tensor.dim() > 0 && tensor.size(0) == batch[0].size(0);
  };
  if (!std::ranges::all_of(batch, is_alike))
    throw InvalidArgumentError("the tensors of a batch differ in their first dimension, the samples", {});
  return batch[0].size(0);
}

void write_samples(const Batch& samples, const std::string& folder, std::int64_t shards, std::uint64_t seed) {
  const c10::NoGradGuard no_grad;
  const std::int64_t count = samples_of(samples);
  if (shards < 1 || shards > count) {
    throw InvalidArgumentError("write_samples: " + std::to_string(count) + " samples do not fill " +
                                   std::to_string(shards) + " shards",
                               {});
  }
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) throw Error("cannot make " + folder + ": " + error.message(), {});
  const std::vector<std::int64_t> order = shuffled(count, seed, 0);
  std::vector<std::int64_t> sizes;
  for (std::int64_t shard = 0; shard < shards; ++shard) {
    const auto begin = order.begin() + count * shard / shards,
               end = order.begin() + count * (shard + 1) / shards;
    sizes.push_back(end - begin);
    write_tensors(rows_of(samples, {begin, end}), shard_path(folder, shard));
  }
  write_tensors({at::tensor(sizes)}, index_path(folder));  // last: a folder with an index is whole
}

struct SampleReader::State {
  std::string folder;
  std::int64_t batch;
  SampleReaderOptions options;
  std::vector<std::int64_t> sizes;     ///< of all shards
  std::vector<std::int64_t> mine;      ///< shards of this rank
  std::int64_t batches_per_epoch = 0;  ///< of this rank
  std::uint64_t epoch = 0;
  bool is_begun = false;            ///< the epoch
  std::vector<std::int64_t> order;  ///< of `mine` in the epoch
  std::size_t to_read = 0;          ///< position in `order`
  std::future<Batch> ahead;         ///< the shard before `to_read`
  Batch current;                    ///< a shard, or what is left of one and all of another
  std::int64_t position = 0;        ///< in `current`
  std::int64_t given = 0;           ///< batches of the epoch

  std::int64_t left() const { return current.empty() ? 0 : current[0].size(0) - position; }

  void read_ahead() {
    if (to_read == order.size()) return;
    const std::int64_t shard = order[to_read++];
    ahead = std::async(std::launch::async, [this, shard, its_epoch = epoch] {
      const c10::NoGradGuard no_grad;
      const std::string path = shard_path(folder, shard);
      Batch samples = read_tensors(path);
      const std::int64_t expected = sizes[static_cast<std::size_t>(shard)];
      const bool is_whole = !samples.empty() && std::ranges::all_of(samples, [&](const at::Tensor& tensor) {
        return tensor.dim() > 0 && tensor.size(0) == expected;
      });
      if (!is_whole)
        throw Error(path + " has not the " + std::to_string(expected) + " samples that index.pt says", {});
      if (!options.shuffle) return samples;
      // Shards of one size must not all be in the same order.
      return rows_of(samples,
                     shuffled(expected, options.seed + static_cast<std::uint64_t>(shard), its_epoch));
    });
  }

  void begin() {
    if (ahead.valid()) ahead.wait();  // of an epoch that was given up
    ahead = {};
    order = mine;
    if (options.shuffle) {
      std::ranges::transform(shuffled(static_cast<std::int64_t>(mine.size()), options.seed, epoch),
                             order.begin(),
                             [this](std::int64_t i) { return mine[static_cast<std::size_t>(i)]; });
    }
    to_read = 0;
    current.clear();
    position = given = 0;
    is_begun = true;
    read_ahead();
  }

  /// Appends the next shard; false where there is none. If it throws, a further call reads that shard again.
  bool take_shard() {
    if (!ahead.valid()) read_ahead();
    if (!ahead.valid()) return false;
    try {
      Batch samples = ahead.get();
      for (std::size_t i = 0; left() > 0 && i < samples.size(); ++i)
        samples[i] = at::cat({current.at(i).slice(0, position), samples[i]});
      current = std::move(samples);
    } catch (...) {
      --to_read;
      throw;
    }
    position = 0;
    read_ahead();
    return true;
  }
};

SampleReader::SampleReader(const std::string& folder, int rank, int ranks, std::int64_t batch,
                           const SampleReaderOptions& options)
    : state_(std::make_unique<State>()) {
  if (ranks < 1 || rank < 0 || rank >= ranks)
    throw InvalidArgumentError("there is no rank " + std::to_string(rank) + " of " + std::to_string(ranks),
                               {});
  if (batch < 1) throw InvalidArgumentError("a batch of " + std::to_string(batch) + " samples", {});
  State& state = *state_;
  state.folder = folder;
  state.batch = batch;
  state.options = options;
  const Batch index = read_tensors(index_path(folder));
  if (index.size() != 1 || index[0].dim() != 1 || index[0].scalar_type() != at::kLong)
    throw Error(index_path(folder) + " is no index of shards", {});
  const auto sizes = index[0].contiguous();
  state.sizes.assign(sizes.data_ptr<std::int64_t>(), sizes.data_ptr<std::int64_t>() + sizes.numel());
  if (state.sizes.size() < static_cast<std::size_t>(ranks)) {
    throw InvalidArgumentError(
        std::to_string(state.sizes.size()) + " shards are too few for " + std::to_string(ranks) + " ranks",
        {});
  }
  std::vector<std::int64_t> samples(static_cast<std::size_t>(ranks));  // of each rank
  for (std::size_t shard = 0; shard < state.sizes.size(); ++shard) {
    samples[shard % static_cast<std::size_t>(ranks)] += state.sizes[shard];
    if (shard % static_cast<std::size_t>(ranks) == static_cast<std::size_t>(rank))
      state.mine.push_back(static_cast<std::int64_t>(shard));
  }
  state.batches_per_epoch = options.drop_uneven
                                ? std::ranges::min(samples) / batch
                                : (samples[static_cast<std::size_t>(rank)] + batch - 1) / batch;
}

SampleReader::~SampleReader() = default;

void SampleReader::set_epoch(std::uint64_t epoch) {
  state_->epoch = epoch;
  state_->is_begun = false;
}

std::uint64_t SampleReader::epoch() const noexcept {
  return state_->epoch;
}

std::int64_t SampleReader::batches_per_epoch() const noexcept {
  return state_->batches_per_epoch;
}

std::optional<Batch> SampleReader::next() {
  State& state = *state_;
  const c10::NoGradGuard no_grad;
  if (!state.is_begun) state.begin();
  if (state.given == state.batches_per_epoch) {
    set_epoch(state.epoch + 1);
    return {};
  }
  while (state.left() < state.batch && state.take_shard()) {
  }
  const std::int64_t end = state.position + std::min(state.left(), state.batch);
  Batch batch;
  for (const at::Tensor& tensor : state.current) batch.push_back(tensor.slice(0, state.position, end));
  state.position = end;
  ++state.given;
  return batch;
}

}  // namespace kolo::methods
