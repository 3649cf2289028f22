#include "plan/training/play.hpp"

#include <algorithm>
#include <cstddef>

namespace kolo::plan {
namespace {

/// DistributedDataParallelOptions::first_bucket_bytes and bucket_bytes.
constexpr double kFirstBucket = 1 << 20, kBucket = 25 << 20;
/// How many units ShardedDataParallel gathers beyond the one in use: if all parameters stay in memory, and if
/// they do not.
constexpr std::size_t kAheadIfKept = 2, kAheadIfDivided = 1;
constexpr double kNever = -1;

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
      averaged = occupy(schedule::Collective::reduce_scatter, layers_[i].bytes);
    }
    return std::max(now_, averaged);
  }

 private:
  double occupy(schedule::Collective collective, double bytes) {
    return links_free_ = std::max(links_free_, now_) + price_(collective, bytes);
  }
  void gather(std::size_t i) {
    if (gathered_[i] == kNever) gathered_[i] = occupy(schedule::Collective::all_gather, layers_[i].bytes);
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

class PipelinePlay {
 public:
  PipelinePlay(const std::vector<StageTime>& stages, int micro_batches)
      : times_(stages), micro_batches_(static_cast<std::size_t>(micro_batches)), stages_(stages.size()) {
    for (Stage& stage : stages_) {
      // The first stage's input and the last stage's loss are there.
      stage.forward.ready.assign(micro_batches_, &stage == &stages_.front() ? 0 : kNever);
      stage.backward.ready.assign(micro_batches_, &stage == &stages_.back() ? 0 : kNever);
    }
  }

  PipelineEnd run() {
    for (bool moves = true; moves;) {
      moves = false;
      for (std::size_t i = 0; i < stages_.size(); ++i) {
        while (advance(i)) moves = true;
      }
    }
    PipelineEnd end;
    for (const Stage& stage : stages_) end.last_backward.push_back(stage.free);
    return end;
  }

 private:
  /// Forward or backward of a stage.
  struct Work {
    std::vector<double> ready;  ///< since when each micro-batch's input, or gradient, is there
    std::size_t done = 0;       ///< micro-batches
    double way_free = 0;        ///< since when the way to the stage that comes next carries nothing
  };
  struct Stage {
    Work forward, backward;
    double free = 0;  ///< since when it has nothing to do
  };

  /// Whether the stage's next work could be done.
  bool advance(std::size_t i) {
    const Stage& stage = stages_[i];
    const std::size_t forwards = stage.forward.done, backwards = stage.backward.done;
    const std::size_t warm_up = std::min(stages_.size() - 1 - i, micro_batches_);
    if (forwards < micro_batches_ && forwards <= backwards + warm_up)
      return work(i, &Stage::forward, times_[i].forward, times_[i].to_next, i + 1);
    return backwards < micro_batches_ &&
           work(i, &Stage::backward, times_[i].backward, times_[i].to_previous, i - 1);
  }

  /// Computes for `seconds`, then sends to stage `next`, if there is one, for as long as `sending`.
  bool work(std::size_t i, Work Stage::*kind, double seconds, double sending, std::size_t next) {
    Stage& stage = stages_[i];
    Work& own = stage.*kind;
    const double ready = own.ready[own.done];
    if (ready == kNever) return false;
    stage.free = std::max(stage.free, ready) + seconds;
    if (next < stages_.size()) {
      own.way_free = std::max(own.way_free, stage.free) + sending;
      (stages_[next].*kind).ready[own.done] = own.way_free;
    }
    ++own.done;
    return true;
  }

  const std::vector<StageTime>& times_;
  const std::size_t micro_batches_;
  std::vector<Stage> stages_;
};

}  // namespace

double play_averaged_backward(const std::vector<ReplicaLayer>& layers, const Price& price) {
  double now = 0, averaged = 0, bucket = 0, limit = kFirstBucket;
  for (std::size_t i = layers.size(); i-- > 0;) {
    now += layers[i].backward;
    bucket += layers[i].bytes;
    if (bucket == 0 || (bucket < limit && i > 0)) continue;
    averaged = std::max(averaged, now) + price(schedule::Collective::all_reduce, bucket);
    bucket = 0;
    limit = kBucket;
  }
  return std::max(now, averaged);
}

double play_sharded_step(const std::vector<ReplicaLayer>& layers, Divided divided, const Price& price) {
  return ShardedPlay(layers, divided, price).run();
}

PipelineEnd play_pipeline(const std::vector<StageTime>& stages, int micro_batches) {
  return PipelinePlay(stages, micro_batches).run();
}

}  // namespace kolo::plan
