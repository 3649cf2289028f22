// bench_train hybrid: replays a model that is divided among data, pipeline and tensor groups, with timed
// waits and real messages.
#include "kolo/train/libtorch.hpp"

#include <ATen/Functions.h>
#include <ATen/Parallel.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "kolo/kolo.hpp"
#include "kolo/train/distributed_data_parallel.hpp"
#include "kolo/train/grid.hpp"
#include "kolo/train/pipeline_parallel.hpp"
#include "kolo/train/sharded_data_parallel.hpp"
#include "train/commands.hpp"
#include "train/hybrid_layers.hpp"
#include "train/json.hpp"
#include "train/require_average.hpp"
#include "train/resident_memory.hpp"
#include "train/timing.hpp"

namespace kolo::bench {
namespace {

struct HybridReplayOptions {
  GridOptions grid;
  int micro_batches = 1;                   ///< more than 1 only with several stages
  double batches = 1;                      ///< of the profile in a replica's step
  std::vector<std::int64_t> borders = {};  ///< the first layer of each stage but the first
  std::optional<Shard> shard = {};         ///< of replicas alone
  double state_per_parameter = 8;          ///< bytes of the optimizer's state
  /// Keeps activations and measures the memory, not times.
  bool measures_memory = false;
  int steps = 5;
};

struct HybridReplayResult {
  double step = 0, step_mean = 0;  ///< seconds, of the slowest rank
  /// Resident memory of the rank that needs most, at its peak, above what there was before.
  double peak_bytes = 0;
};

constexpr int kStepsBefore = 3;

/// A step, and this rank's parameters.
struct Trained {
  std::function<void()> step;
  std::vector<at::Tensor> parameters;
  bool keeps_gradients = true;  ///< from step to step, as zero_grad() without set_to_none
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

/// Collective. Throws std::runtime_error where a gradient's average is wrong, std::invalid_argument for
/// options that do not go together.
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
    sleep_for(optimizer);
    const double took = largest_of_all(communicator, seconds_since(begin));
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

struct HybridSettings {
  std::string profile, shard;
  HybridReplayOptions replay;
  JsonOutput output;
};

void run_hybrid(HybridSettings& settings, bool speaks) {
  HybridReplayOptions options = settings.replay;
  if (!settings.shard.empty()) options.shard = parse_shard(settings.shard);
  const std::vector<HybridLayer> layers = read_hybrid_profile(settings.profile);
  if (speaks) settings.output.open();
  Communicator communicator = Communicator::create();
  const HybridReplayResult result = replay_hybrid(layers, communicator, options);
  if (!speaks) return;
  const nlohmann::json json = {{"kind", "replayed"},
                               {"ranks", communicator.size()},
                               {"step_s", result.step},
                               {"step_mean_s", result.step_mean},
                               {"peak_bytes", result.peak_bytes}};
  if (settings.output.write(json)) return;
  if (options.measures_memory) {
    fmt::print("hybrid: {} ranks, {:.1f} MB at most\n", communicator.size(), 1e-6 * result.peak_bytes);
  } else {
    fmt::print("hybrid: {} ranks, a step of {:.2f} ms, the median; mean {:.2f} ms\n", communicator.size(),
               1e3 * result.step, 1e3 * result.step_mean);
  }
}

}  // namespace

void add_hybrid(CLI::App& app, bool speaks) {
  const auto settings = std::make_shared<HybridSettings>();
  HybridReplayOptions& replay = settings->replay;
  CLI::App* command =
      app.add_subcommand("hybrid", "Replays a way of `kolo plan training`: replicas, stages, shared layers");
  command
      ->add_option("--profile", settings->profile,
                   "What each layer computes, keeps and sends: see kolo plan training")
      ->required();
  command->add_option("--data", replay.grid.data, "Replicas")->check(CLI::PositiveNumber);
  command->add_option("--tensor", replay.grid.tensor, "Ranks that share layers")->check(CLI::PositiveNumber);
  command->add_option("--pipeline", replay.grid.pipeline, "Stages")->check(CLI::PositiveNumber);
  command->add_option("--borders", replay.borders, "First layer of each stage but the first")->delimiter(',');
  command->add_option("--micro-batches", replay.micro_batches, "Of a replica's step")
      ->check(CLI::PositiveNumber);
  command->add_option("--batches", replay.batches, "Of the profile in a replica's step")
      ->check(CLI::PositiveNumber);
  command->add_option("--shard", settings->shard, "What replicas divide among themselves")
      ->check(CLI::IsMember(shard_names()));
  command->add_option("--state", replay.state_per_parameter, "Bytes of the optimizer's state for a parameter")
      ->check(CLI::NonNegativeNumber);
  command->add_flag("--memory", replay.measures_memory,
                    "Keeps activations and looks at the memory, not at times");
  command->add_option("--steps", replay.steps, "Steps that count")->check(CLI::PositiveNumber);
  settings->output.add_to(*command);
  command->callback([settings, speaks] { run_hybrid(*settings, speaks); });
}

}  // namespace kolo::bench
