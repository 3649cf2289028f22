// bench_train pipeline: steps of a pipeline whose stages sleep or compute, and how long its ranks idle.
#include "kolo/train/libtorch.hpp"

#include <ATen/Functions.h>
#include <ATen/Parallel.h>
#include <fmt/ranges.h>
#include <torch/nn/functional/loss.h>
#include <torch/optim/sgd.h>
#include <torch/utils.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "kolo/kolo.hpp"
#include "kolo/train/pipeline_parallel.hpp"
#include "train/commands.hpp"
#include "train/hybrid_layers.hpp"
#include "train/json.hpp"
#include "train/pipeline_layers.hpp"
#include "train/resident_memory.hpp"
#include "train/timing.hpp"

namespace kolo::bench {
namespace {

struct PipelineRunOptions {
  PipelineSchedule schedule = PipelineSchedule::one_forward_one_backward;
  int micro_batches = 4;
  int chunks = 1;
  bool recompute = false;
  std::vector<std::int64_t> borders = {};
  int steps = 5;
};

struct PipelineRunResult {
  int ranks = 0;
  double step = 0, step_mean = 0;  ///< seconds, of the slowest rank
  double computing = 0;            ///< seconds of a step, the mean over ranks
  /// 1 - computing / step: the mean over ranks of the share of a step in which a rank idles.
  double bubble = 0;
  /// The bubble of stages that take equal times, with messages that take none.
  double formula = 0;
  std::vector<int> most_held;        ///< by rank
  std::vector<double> peak_bytes;    ///< by rank: peak of resident memory, above that before the first step
  std::optional<double> alone_step;  ///< seconds, of one rank with all layers
};

constexpr int kUntimedSteps = 2;
constexpr double kLearningRate = 1e-3;

double seconds_of(const std::function<void()>& step) {
  const auto begin = Clock::now();
  step();
  return seconds_since(begin);
}

template <typename Value>
std::vector<Value> by_rank(Value mine, Communicator& communicator) {
  std::vector<Value> all(static_cast<std::size_t>(communicator.size()));
  communicator.all_gather(ConstBuffer(&mine, 1, dtype_of<Value>), Buffer(all));
  return all;
}

PipelineRunResult run_steps(const torch::nn::Sequential& layers, const PipelineParallel::Loss& loss,
                            const at::Tensor& input, const at::Tensor& target,
                            const PipelineRunOptions& options, Communicator& communicator) {
  PipelineParallel pipeline(PipelineModel{layers, options.borders}, loss, communicator,
                            {.schedule = options.schedule,
                             .micro_batches = options.micro_batches,
                             .chunks = options.chunks,
                             .recompute = options.recompute});
  const std::vector<at::Tensor> parameters = pipeline.parameters();
  torch::optim::SGD optimizer(parameters, kLearningRate);
  const auto step = [&] {
    optimizer.zero_grad();
    communicator.barrier();
    const double seconds = seconds_of([&] {
      pipeline.step(input, target);
      communicator.barrier();  // a step ends when it ends on all ranks
    });
    optimizer.step();
    return seconds;
  };
  const double first_bytes = resident_bytes();
  PipelineRunResult result;
  {
    const ResidentPeak peak;
    for (int i = 0; i < kUntimedSteps; ++i) step();
    result.peak_bytes = by_rank(peak.bytes() - first_bytes, communicator);
  }
  std::vector<double> times;
  const auto before = pipeline.statistics().computing;
  for (int i = 0; i < options.steps; ++i) times.push_back(step());
  std::vector<double> computing{in_seconds(pipeline.statistics().computing - before) / options.steps};
  communicator.all_reduce(Buffer(times), ReduceOp::max);
  communicator.all_reduce(Buffer(computing), ReduceOp::average);
  result.ranks = communicator.size();
  result.step = median(times);
  result.step_mean = mean(times);
  result.computing = computing[0];
  result.bubble = 1 - result.computing / result.step_mean;
  const double behind = communicator.size() - 1, rounds = options.chunks * options.micro_batches;
  result.formula = behind / (rounds + behind);
  result.most_held = by_rank(pipeline.statistics().most_held, communicator);
  return result;
}

/// Collective. Stages sleep for the times of `costs`, which are for a batch.
PipelineRunResult run_sleeping(std::span<const LayerCost> costs, const PipelineRunOptions& options,
                               Communicator& communicator) {
  at::set_num_threads(1);
  const auto setting = std::make_shared<HybridSetting>(
      HybridSetting{.batches = 1.0 / options.micro_batches, .keeps_activations = false, .catches_up = true});
  std::vector<HybridLayer> layers;
  for (const LayerCost& cost : costs) {
    layers.push_back({.forward = cost.forward_s,
                      .backward = cost.backward_s,
                      .output_bytes = static_cast<double>(cost.output_bytes)});
  }
  const at::Tensor batch = at::zeros({options.micro_batches, 1});
  PipelineRunResult result =
      run_steps(make_hybrid_layers(layers, setting), small_loss, batch, batch, options, communicator);
  // The intended sleep. A longer sleep, because cores are busy, counts as idle time.
  result.computing = stage_seconds(costs, 0, static_cast<std::int64_t>(costs.size())) / result.ranks;
  result.bubble = 1 - result.computing / result.step_mean;
  return result;
}

/// Collective. Stages compute with one thread each. With `compares`, rank 0 then also runs all layers alone
/// on whole batches.
PipelineRunResult run_computing(const std::string& name, std::int64_t batch,
                                const PipelineRunOptions& options, bool compares,
                                Communicator& communicator) {
  at::set_num_threads(1);
  torch::manual_seed(1);
  const auto loss = [](const at::Tensor& output, const at::Tensor& target) {
    return at::mse_loss(output, target);
  };
  PipelineRunResult result;
  {
    const LayeredWorkload workload = layered_workloads().at(name)(batch);
    result = run_steps(workload.layers, loss, workload.input, workload.target, options, communicator);
  }
  if (!compares) return result;
  std::vector<double> alone{0};
  if (communicator.rank() == 0) {
    LayeredWorkload workload = layered_workloads().at(name)(batch);
    torch::optim::SGD optimizer(workload.layers->parameters(), kLearningRate);
    std::vector<double> times;
    for (int i = 0; i < kUntimedSteps + options.steps; ++i) {
      times.push_back(
          seconds_of([&] { loss(workload.layers->forward(workload.input), workload.target).backward(); }));
      optimizer.step();
      optimizer.zero_grad();
    }
    alone[0] = mean({times.begin() + kUntimedSteps, times.end()});
  }
  communicator.broadcast(Buffer(alone), 0);
  result.alone_step = alone[0];
  return result;
}

/// A layer of a file of train_pipeline --profile.
LayerCost layer_of(const nlohmann::json& layer) {
  return {.name = layer.at("name"),
          .forward_s = seconds_at(layer, "forward_ms"),
          .backward_s = seconds_at(layer, "backward_ms"),
          .output_bytes = layer.at("output_bytes")};
}

struct PipelineSettings {
  std::string schedule = "1f1b", profile, network;
  PipelineRunOptions run;
  double forward_ms = 10, backward_ms = 20, slower = 1;
  std::uint64_t bytes = 65536;
  std::int64_t batch = 256;
  bool partitions = false, compares = false;
  JsonOutput output;
};

void run_pipeline(PipelineSettings& s, bool speaks) {
  PipelineRunOptions options = s.run;
  options.schedule = parse_pipeline_schedule(s.schedule);
  if (speaks) s.output.open();
  Communicator communicator = Communicator::create();
  const int stages = communicator.size() * options.chunks;
  PipelineRunResult result;
  double expected = 0;
  if (!s.network.empty()) {
    result = run_computing(s.network, s.batch, options, s.compares, communicator);
  } else {
    std::vector<LayerCost> costs;
    if (s.profile.empty()) {
      const double in_step = 1e-3 * options.micro_batches / options.chunks;
      costs.assign(static_cast<std::size_t>(stages),
                   {.forward_s = in_step * s.forward_ms,
                    .backward_s = in_step * s.backward_ms,
                    .output_bytes = s.bytes * static_cast<std::uint64_t>(options.micro_batches)});
    } else {
      costs = read_layers<LayerCost>(s.profile, layer_of);
      for (LayerCost& cost : costs) {
        cost.forward_s *= s.slower;
        cost.backward_s *= s.slower;
      }
    }
    if (s.partitions) {
      const Partition found = partition(costs, stages);
      options.borders = found.borders;
      expected = found.slowest_s;
    }
    result = run_sleeping(costs, options, communicator);
  }
  if (!speaks) return;
  nlohmann::json json = {{"kind", s.network.empty() ? "replayed" : "computed"},
                         {"ranks", result.ranks},
                         {"schedule", s.schedule},
                         {"micro_batches", options.micro_batches},
                         {"chunks", options.chunks},
                         {"recompute", options.recompute},
                         {"borders", options.borders},
                         {"step_s", result.step},
                         {"step_mean_s", result.step_mean},
                         {"computing_s", result.computing},
                         {"bubble", result.bubble},
                         {"formula", result.formula},
                         {"most_held", result.most_held},
                         {"peak_bytes", result.peak_bytes}};
  if (s.partitions) json["slowest_stage_s"] = expected;
  if (result.alone_step) json["alone_step_s"] = *result.alone_step;
  if (s.output.write(json)) return;
  fmt::print("pipeline: {}, {} ranks, {} micro-batches, {} stages a rank\n", s.schedule, result.ranks,
             options.micro_batches, options.chunks);
  fmt::print("  {:<22}{:>10.2f} ms   median; mean {:.2f} ms\n", "step", 1e3 * result.step,
             1e3 * result.step_mean);
  fmt::print("  {:<22}{:>10.3f}      of a step ranks idle; by the formula {:.3f}\n", "bubble", result.bubble,
             result.formula);
  fmt::print("  {:<22}{:>10}      micro-batches held by rank\n", "held",
             fmt::format("{}", fmt::join(result.most_held, ", ")));
  if (result.alone_step)
    fmt::print("  {:<22}{:>10.2f} ms   of one rank with all layers\n", "step alone",
               1e3 * *result.alone_step);
}

}  // namespace

void add_pipeline(CLI::App& app, bool speaks) {
  const auto settings = std::make_shared<PipelineSettings>();
  PipelineSettings& s = *settings;
  CLI::App* command =
      app.add_subcommand("pipeline", "Runs a pipeline, a stage a rank, whose stages sleep or compute");
  command->add_option("--schedule", s.schedule, "The order of micro-batches")
      ->check(CLI::IsMember(pipeline_schedule_names()));
  command->add_option("--micro-batches", s.run.micro_batches, "Of a step")->check(CLI::PositiveNumber);
  command->add_option("--chunks", s.run.chunks, "Stages of a rank")->check(CLI::PositiveNumber);
  command->add_option("--steps", s.run.steps, "Steps that count")->check(CLI::PositiveNumber);
  command->add_option("--borders", s.run.borders, "First layer of each stage but the first; none: even")
      ->delimiter(',');
  command->add_flag("--partition", s.partitions, "Borders from the times of the profile")
      ->excludes("--borders");
  command->add_flag("--recompute", s.run.recompute, "Stages are computed anew in backward");
  command->add_option("--forward-ms", s.forward_ms, "What all stages of a rank sleep for a micro-batch")
      ->check(CLI::NonNegativeNumber);
  command->add_option("--backward-ms", s.backward_ms, "The same in backward")->check(CLI::NonNegativeNumber);
  command->add_option("--bytes", s.bytes, "Of the output of a micro-batch");
  auto* profile = command->add_option(
      "--profile", s.profile, "Sleeps as long as the layers in this file take, which train_pipeline writes");
  command->add_option("--slower", s.slower, "All times of the profile so many times as long")
      ->check(CLI::PositiveNumber);
  auto* network = command->add_option("--network", s.network, "Computes for real, one thread a rank")
                      ->check(CLI::IsMember(layered_workloads()));
  network->excludes(profile);
  command->add_option("--batch", s.batch, "Samples of a step, of a network")->check(CLI::PositiveNumber);
  command->add_flag("--alone", s.compares, "Also one rank with the whole network")->needs(network);
  s.output.add_to(*command);
  command->callback([settings, speaks] { run_pipeline(*settings, speaks); });
}

}  // namespace kolo::bench
