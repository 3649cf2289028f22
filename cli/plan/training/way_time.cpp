#include "plan/training/way_time.hpp"

#include <algorithm>

#include "kolo/train/stage_partition.hpp"
#include "plan/training/play.hpp"
#include "plan/training/way_memory.hpp"

namespace kolo::plan {
namespace {

/// A step of one way, with messages that take their time, or none.
class TrainingStep {
 public:
  /// `prices` may be null: messages take no time.
  TrainingStep(const Job& job, const Way& way, GroupPrices* prices)
      : job_(job),
        way_(way),
        prices_(prices),
        data_(job.cluster, way.data_groups()),
        tensor_(job.cluster, way.tensor_groups()) {}

  double seconds() const {
    if (way_.divided != Divided::nothing)
      return play_sharded_step(layers_of(0), way_.divided, among_replicas()) + optimizer_of(0);
    std::vector<StageTime> times;
    for (int stage = 0; stage < way_.stages; ++stage) times.push_back(stage_time(stage));
    const PipelineEnd end = play_pipeline(times, way_.micro_batches);
    double last = 0;
    for (int stage = 0; stage < way_.stages; ++stage) {
      const auto place = static_cast<std::size_t>(stage);
      last = std::max(
          last, averaged_after(stage, end.last_backward[place], times[place].backward) + optimizer_of(stage));
    }
    return last;
  }

  ReplicaLayer layer(std::size_t index) const {
    const ProfiledLayer& layer = job_.profile.layers[index];
    const bool is_shared = way_.tensor > 1 && layer.is_divisible();
    const double scale = job_.batches(way_);
    const double part = is_shared ? scale / way_.tensor : scale;
    const double sum =
        is_shared ? price(schedule::Collective::all_reduce, tensor_, scale * layer.tensor_sums) : 0;
    return {part * layer.forward + sum, part * layer.backward + sum,
            kBytesPerNumber * parameters_on_rank(job_.profile, way_, index)};
  }

  std::vector<ReplicaLayer> layers_of(int stage) const {
    std::vector<ReplicaLayer> layers;
    for (const std::size_t i : way_.layers_of(stage, job_.profile.layers.size())) layers.push_back(layer(i));
    return layers;
  }

  double optimizer_of(int stage) const {
    double seconds = 0;
    for (const std::size_t i : way_.layers_of(stage, job_.profile.layers.size())) {
      const ProfiledLayer& layer = job_.profile.layers[i];
      seconds += layer.optimizer / (layer.is_divisible() ? way_.tensor : 1);
    }
    return way_.divided == Divided::nothing ? seconds : seconds / way_.data;
  }

 private:
  /// When the replicas of a stage have averaged its gradients.
  double averaged_after(int stage, double last_backward, double backward) const {
    const std::vector<ReplicaLayer> layers = layers_of(stage);
    if (way_.stages == 1) return last_backward - backward + play_averaged_backward(layers, among_replicas());
    double bytes = 0;
    for (const ReplicaLayer& layer : layers) bytes += layer.bytes;
    return last_backward + price(schedule::Collective::all_reduce, data_, bytes);
  }

  Price among_replicas() const {
    return [this](schedule::Collective collective, double bytes) { return price(collective, data_, bytes); };
  }

  double price(schedule::Collective collective, const ConcurrentGroups& groups, double bytes) const {
    return prices_ == nullptr ? 0 : prices_->seconds(collective, groups, bytes);
  }

  StageTime stage_time(int stage) const {
    StageTime time;
    for (const ReplicaLayer& layer : layers_of(stage)) {
      time.forward += layer.forward;
      time.backward += layer.backward;
    }
    if (stage + 1 < way_.stages) time.to_next = message_after(stage);
    if (stage > 0) time.to_previous = message_after(stage - 1);
    return time;
  }

  /// The stage's output, or its gradient.
  double message_after(int stage) const {
    const ProfiledLayer& last = job_.profile.layers[way_.begin_of(stage + 1) - 1];
    const ConcurrentGroups pairs(job_.cluster, way_.pairs_after(stage));
    return price(schedule::Collective::broadcast, pairs, job_.batches(way_) * last.output_bytes);
  }

  const Job& job_;
  const Way& way_;
  GroupPrices* prices_;
  const ConcurrentGroups data_, tensor_;
};

}  // namespace

WayTime time_of(const Job& job, const Way& way, GroupPrices& prices) {
  const TrainingStep free(job, way, nullptr);
  WayTime time;
  for (int stage = 0; stage < way.stages; ++stage) {
    for (const ReplicaLayer& layer : free.layers_of(stage))
      time.computing += way.micro_batches * (layer.forward + layer.backward) / way.stages;
    time.computing += free.optimizer_of(stage) / way.stages;
  }
  for (const ProfiledLayer& layer : job.profile.layers) {
    if (way.tensor == 1 || layer.is_divisible()) continue;
    const double seconds = way.micro_batches * job.batches(way) * (layer.forward + layer.backward);
    time.repeated += (seconds + layer.optimizer) / way.stages * (way.tensor - 1) / way.tensor;
  }
  time.step = TrainingStep(job, way, &prices).seconds();
  const double without_messages = free.seconds();
  time.waiting = std::max(0.0, without_messages - time.computing);  // else but rounding
  time.communication = std::max(0.0, time.step - without_messages);
  return time;
}

std::vector<std::size_t> borders_of(const Job& job, const Way& way, GroupPrices& prices) {
  const TrainingStep step(job, way, &prices);
  std::vector<LayerCost> costs(job.profile.layers.size());
  for (std::size_t i = 0; i < costs.size(); ++i) {
    const ReplicaLayer layer = step.layer(i);
    costs[i].forward_s = layer.forward + layer.backward;
  }
  std::vector<std::size_t> first_layers{0};
  for (const std::int64_t border : partition(costs, way.stages).borders)
    first_layers.push_back(static_cast<std::size_t>(border));
  return first_layers;
}

}  // namespace kolo::plan
