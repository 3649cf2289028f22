#include "plan/training/gradient_play.hpp"

#include <algorithm>
#include <cstddef>

namespace kolo::plan {
namespace {

/// DistributedDataParallelOptions::first_bucket_bytes and bucket_bytes.
constexpr double kFirstBucket = 1 << 20, kBucket = 25 << 20;
/// How many units ShardedDataParallel gathers beyond the one in use: if all parameters stay in memory, and if
/// they do not.
constexpr std::size_t kAheadIfKept = 2, kAheadIfDivided = 1;

/// One rank's computation and its links, each of which does one thing after the other.
class ShardedPlay {
 public:
  ShardedPlay(const std::vector<ReplicaLayer>& layers, Divided divided, const Price& price)
      : layers_(layers), divided_(divided), price_(price), gathered_(layers.size(), kNever) {}

  double run() {
    const std::size_t ahead = divided_ == Divided::parameters ? kAheadIfDivided : kAheadIfKept;
    for (std::size_t i = 0; i < layers_.size(); ++i) {
      use(i);
      for (std::size_t next = i + 1; next <= i + ahead && next < layers_.size(); ++next) gather(next);
      now_ += layers_[i].forward;
    }
    // The unit that forward used last is still there.
    if (divided_ == Divided::parameters) std::fill(gathered_.begin(), gathered_.end() - 1, kNever);
    double averaged = 0;
    for (std::size_t i = layers_.size(); i-- > 0;) {
      use(i);
      if (i > 0) gather(i - 1);
      now_ += layers_[i].backward;
      if (layers_[i].bytes == 0) continue;
      now_ = std::max(now_, averaged);  // one at a time: more would be more memory
      averaged = occupy(Collective::reduce_scatter, layers_[i].bytes);
    }
    return std::max(now_, averaged);
  }

 private:
  static constexpr double kNever = -1;

  double occupy(Collective collective, double bytes) {
    return links_free_ = std::max(links_free_, now_) + price_(collective, bytes);
  }
  void gather(std::size_t i) {
    if (gathered_[i] == kNever) gathered_[i] = occupy(Collective::all_gather, layers_[i].bytes);
  }
  void use(std::size_t i) {
    gather(i);
    now_ = std::max(now_, gathered_[i]);
  }

  const std::vector<ReplicaLayer>& layers_;
  const Divided divided_;
  const Price& price_;
  std::vector<double> gathered_;  ///< since when each layer's parameters are there
  double now_ = 0;                ///< of what the rank computes
  double links_free_ = 0;
};

}  // namespace

double play_averaged_backward(const std::vector<ReplicaLayer>& layers, const Price& price) {
  double now = 0, averaged = 0, bucket = 0, limit = kFirstBucket;
  for (std::size_t i = layers.size(); i-- > 0;) {
    now += layers[i].backward;
    bucket += layers[i].bytes;
    if (bucket == 0 || (bucket < limit && i > 0)) continue;
    averaged = std::max(averaged, now) + price(Collective::all_reduce, bucket);
    bucket = 0;
    limit = kBucket;
  }
  return std::max(now, averaged);
}

double play_sharded_step(const std::vector<ReplicaLayer>& layers, Divided divided, const Price& price) {
  return ShardedPlay(layers, divided, price).run();
}

}  // namespace kolo::plan
