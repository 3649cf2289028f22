#include "train/hybrid_replay.hpp"

#include <ATen/Functions.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <memory>
#include <stdexcept>

#include "kolo/train/distributed_data_parallel.hpp"
#include "kolo/train/pipeline_parallel.hpp"
#include "train/replayed_model.hpp"
#include "train/require_average.hpp"
#include "train/resident_memory.hpp"
#include "train/statistics.hpp"

namespace kolo::bench {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kStepsBefore = 3;

at::Tensor small_loss(const at::Tensor& output, const at::Tensor&) {
  return output.slice(0, 0, 1).sum();
}

/// What makes a step, and what of the parameters this rank has.
struct Trained {
  std::function<void()> step;
  std::vector<at::Tensor> parameters;
  bool keeps_gradients = true;  ///< between steps, as memory that zero_grad() clears
};

/// The layers of this rank's stage.
std::span<const HybridLayer> stage_of(std::span<const HybridLayer> layers, const HybridReplayOptions& options,
                                      int stage) {
  const auto at = static_cast<std::size_t>(stage);
  const std::size_t begin = stage == 0 ? 0 : static_cast<std::size_t>(options.borders[at - 1]);
  const std::size_t end =
      at < options.borders.size() ? static_cast<std::size_t>(options.borders[at]) : layers.size();
  return layers.subspan(begin, end - begin);
}

Trained make_pipeline(const torch::nn::Sequential& layers, Grid& grid, const HybridReplayOptions& options) {
  PipelineParallelOptions settings{.micro_batches = options.micro_batches};
  if (grid.data().size() > 1) settings.data = grid.data();
  const auto pipeline = std::make_shared<PipelineParallel>(std::vector<PipelineStage>{layers}, small_loss,
                                                           grid.pipeline(), settings);
  const at::Tensor batch = at::zeros({options.micro_batches, 1});
  return {[=] { pipeline->step(batch, batch); }, pipeline->parameters()};
}

template <typename Model>
Trained make_replicas(std::shared_ptr<Model> model, bool keeps_gradients) {
  const at::Tensor batch = at::zeros({1}).requires_grad_();
  return {[=] { small_loss((*model)(batch), {}).backward(); }, model->parameters(), keeps_gradients};
}

Trained make_trained(const torch::nn::Sequential& layers, Grid& grid, const HybridReplayOptions& options) {
  if (options.grid.pipeline > 1) return make_pipeline(layers, grid, options);
  if (options.shard) {
    return make_replicas(std::make_shared<ShardedDataParallel<torch::nn::SequentialImpl>>(
                             layers, grid.data(), ShardedDataParallelOptions{.shard = *options.shard}),
                         false);
  }
  return make_replicas(
      std::make_shared<DistributedDataParallel<torch::nn::SequentialImpl>>(layers, grid.data()), true);
}

void require_valid(std::span<const HybridLayer> layers, const HybridReplayOptions& options) {
  const bool is_pipeline = options.grid.pipeline > 1;
  if (!is_pipeline && options.micro_batches > 1)
    throw std::invalid_argument("several micro-batches want several stages");
  if (options.shard && (is_pipeline || options.grid.tensor > 1))
    throw std::invalid_argument("shards are of replicas alone");
  std::int64_t last = 0;
  for (const std::int64_t border : options.borders) {
    if (border <= last || border >= static_cast<std::int64_t>(layers.size()))
      throw std::invalid_argument("borders must ascend within the layers");
    last = border;
  }
  if (static_cast<int>(options.borders.size()) != options.grid.pipeline - 1)
    throw std::invalid_argument("there is one border less than there are stages");
}

double largest_of_all(Communicator& communicator, double value) {
  communicator.all_reduce(Buffer(&value, 1, DType::float64), ReduceOp::max);
  return value;
}

}  // namespace

HybridReplayResult replay_hybrid(std::span<const HybridLayer> layers, Communicator& communicator,
                                 const HybridReplayOptions& options) {
  require_valid(layers, options);
  at::set_num_threads(1);
  Grid grid(communicator, options.grid);
  const auto own = stage_of(layers, options, grid.pipeline().rank());
  const auto setting = std::make_shared<HybridSetting>();
  setting->tensor = grid.tensor();
  setting->batches = options.batches / options.micro_batches;
  setting->keeps_activations = options.measures_memory;
  double optimizer = 0;
  for (const HybridLayer& layer : own)
    optimizer += layer.optimizer / (layer.tensor_sums > 0 ? options.grid.tensor : 1);
  if (options.shard) optimizer /= options.grid.data;

  communicator.barrier();
  const double first_bytes = resident_bytes();
  std::unique_ptr<ResidentPeak> peak;
  const Trained trained = make_trained(make_hybrid_layers(own, setting), grid, options);
  std::vector<at::Tensor> state;
  for (const at::Tensor& parameter : trained.parameters) {
    const double bytes = options.state_per_parameter * static_cast<double>(parameter.numel());
    if (options.measures_memory)
      state.push_back(at::ones({static_cast<std::int64_t>(bytes / sizeof(float))}));
  }
  std::vector<double> times;
  for (int step = 0; step < kStepsBefore + options.steps; ++step) {
    setting->gradient = static_cast<float>(grid.data().rank() + 1 + step % 8);
    const float average = static_cast<float>(options.grid.data + 1) / 2 + static_cast<float>(step % 8);
    for (const at::Tensor& parameter : trained.parameters) {
      if (!trained.keeps_gradients) {
        parameter.mutable_grad() = at::Tensor();
      } else if (parameter.grad().defined()) {
        parameter.grad().zero_();
      }
    }
    communicator.barrier();
    if (options.measures_memory && step == kStepsBefore) peak = std::make_unique<ResidentPeak>();
    const auto begin = Clock::now();
    trained.step();
    sleep_until(Clock::now() + from_seconds(optimizer));
    const double took =
        largest_of_all(communicator, std::chrono::duration<double>(Clock::now() - begin).count());
    for (const at::Tensor& parameter : trained.parameters) {
      if (parameter.numel() == 0) continue;
      require_average(parameter.grad().data_ptr(), static_cast<std::size_t>(parameter.numel()),
                      average * static_cast<float>(options.micro_batches));
    }
    if (step >= kStepsBefore) times.push_back(took);
  }
  HybridReplayResult result{.step = median(times), .step_mean = mean(times)};
  if (peak) result.peak_bytes = largest_of_all(communicator, peak->bytes() - first_bytes);
  return result;
}

}  // namespace kolo::bench
