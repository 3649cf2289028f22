#include "fashion_mnist/feed.hpp"

#include <ATen/Functions.h>

#include <filesystem>
#include <stdexcept>
#include <utility>

#include "kolo/train/data.hpp"
#include "methods/batch_scatter.hpp"
#include "methods/sample_reader.hpp"

namespace fashion_mnist {
namespace {

constexpr std::int64_t kShardsPerRank = 4;

/// Batches of one rank's samples out of all images. Every number of ranks takes the same ones in a step; the
/// first ranks take one more where they cannot share a batch evenly.
class SamplerFeed final : public Feed {
 public:
  SamplerFeed(Dataset training, int rank, int ranks, std::int64_t batch, std::uint64_t seed)
      : training_(std::move(training)),
        sampler_(training_.size(), 0, 1, {.seed = seed}),
        rank_(rank),
        ranks_(ranks),
        batch_(batch) {}

  std::int64_t steps_per_epoch() const override { return training_.size() / batch_; }
  void set_batch(std::int64_t batch) override { batch_ = batch; }
  void begin_epoch(int epoch, std::int64_t step) override {
    sampler_.set_epoch(static_cast<std::uint64_t>(epoch));
    order_ = at::tensor(sampler_.indices());
    step_ = step;
  }
  kolo::Batch next() override {
    taken_ = order_.slice(0, step_ * batch_ + rank_, (step_ + 1) * batch_, ranks_);
    ++step_;
    return {training_.images.index_select(0, taken_), training_.labels.index_select(0, taken_)};
  }
  std::vector<std::int64_t> samples() const override {
    const at::Tensor taken = taken_.contiguous();
    return {taken.data_ptr<std::int64_t>(), taken.data_ptr<std::int64_t>() + taken.numel()};
  }

 private:
  Dataset training_;
  kolo::DistributedSampler sampler_;  ///< of all ranks' samples
  int rank_, ranks_;
  std::int64_t batch_;
  at::Tensor order_, taken_;
  std::int64_t step_ = 0;
};

class ShardFeed final : public Feed {
 public:
  ShardFeed(const std::string& folder, int rank, int ranks, std::int64_t batch, std::uint64_t seed)
      : reader_(folder, rank, ranks, batch, {.seed = seed}) {}

  std::int64_t steps_per_epoch() const override { return reader_.batches_per_epoch(); }
  void begin_epoch(int epoch, std::int64_t) override { reader_.set_epoch(static_cast<std::uint64_t>(epoch)); }
  kolo::Batch next() override { return reader_.next().value(); }

 private:
  kolo::methods::SampleReader reader_;
};

/// All ranks take the same batches, so rank 0's source needs no word from them of where an epoch begins.
class ScatterFeed final : public Feed {
 public:
  /// Rank 0 has a feed of whole batches, and says how many there are.
  ScatterFeed(kolo::Communicator& communicator, std::shared_ptr<Feed> whole)
      : steps_per_epoch_(whole ? whole->steps_per_epoch() : 0) {
    communicator.broadcast(kolo::Buffer(&steps_per_epoch_, 1, kolo::DType::int64), 0);
    kolo::methods::BatchScatter::Source source;
    if (whole) {
      source = [whole, step = std::int64_t{0}]() mutable {
        const std::int64_t steps = whole->steps_per_epoch();
        if (step % steps == 0) whole->begin_epoch(static_cast<int>(step / steps), 0);
        ++step;
        return whole->next();
      };
    }
    scatter_ = std::make_unique<kolo::methods::BatchScatter>(communicator, std::move(source));
  }

  std::int64_t steps_per_epoch() const override { return steps_per_epoch_; }
  void begin_epoch(int, std::int64_t) override {}
  kolo::Batch next() override { return scatter_->next().value(); }

 private:
  std::int64_t steps_per_epoch_;
  std::unique_ptr<kolo::methods::BatchScatter> scatter_;
};

}  // namespace

std::unique_ptr<Feed> make_feed(const Options& options, kolo::Communicator& communicator,
                                const std::function<Dataset()>& training) {
  const int rank = communicator.rank(), ranks = communicator.size();
  if (options.reader == "sampler")
    return std::make_unique<SamplerFeed>(training(), rank, ranks, options.batch, options.seed);
  if (options.reader == "scatter") {
    std::shared_ptr<Feed> whole;
    if (rank == 0) whole = std::make_shared<SamplerFeed>(training(), 0, 1, options.batch, options.seed);
    return std::make_unique<ScatterFeed>(communicator, std::move(whole));
  }
  if (options.shards.empty()) throw std::invalid_argument("--reader shards needs a folder: --shards");
  if (rank == 0 && !std::filesystem::exists(std::filesystem::path(options.shards) / "index.pt")) {
    const Dataset all = training();
    kolo::methods::write_samples({all.images, all.labels}, options.shards, kShardsPerRank * ranks,
                                 options.seed);
  }
  communicator.barrier();
  return std::make_unique<ShardFeed>(options.shards, rank, ranks, options.batch / ranks, options.seed);
}

}  // namespace fashion_mnist
