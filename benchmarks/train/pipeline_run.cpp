#include "train/pipeline_run.hpp"

#include <ATen/Functions.h>
#include <ATen/Parallel.h>
#include <torch/nn/functional/loss.h>
#include <torch/optim/sgd.h>
#include <torch/utils.h>

#include <algorithm>
#include <chrono>
#include <functional>

#include "train/pipeline_layers.hpp"
#include "train/resident_memory.hpp"
#include "train/statistics.hpp"

namespace kolo::bench {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kUntimedSteps = 2;
constexpr double kLearningRate = 1e-3;

double seconds_of(const std::function<void()>& step) {
  const auto begin = Clock::now();
  step();
  return std::chrono::duration<double>(Clock::now() - begin).count();
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
      communicator.barrier();  // a step is over when it is on all ranks
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
  const auto before = pipeline.total().computing;
  for (int i = 0; i < options.steps; ++i) times.push_back(step());
  std::vector<double> computing{std::chrono::duration<double>(pipeline.total().computing - before).count() /
                                options.steps};
  communicator.all_reduce(Buffer(times), ReduceOp::max);
  communicator.all_reduce(Buffer(computing), ReduceOp::average);
  result.ranks = communicator.size();
  result.step = median(times);
  result.step_mean = mean(times);
  result.computing = computing[0];
  result.bubble = 1 - result.computing / result.step_mean;
  const double behind = communicator.size() - 1, rounds = options.chunks * options.micro_batches;
  result.formula = behind / (rounds + behind);
  result.most_held = by_rank(pipeline.total().most_held, communicator);
  return result;
}

}  // namespace

PipelineRunResult run_sleeping(std::span<const LayerCost> costs, const PipelineRunOptions& options,
                               Communicator& communicator) {
  at::set_num_threads(1);
  const at::Tensor batch = at::zeros({options.micro_batches, 1});
  PipelineRunResult result = run_steps(
      make_sleeping_layers(costs, options.micro_batches),
      [](const at::Tensor& output, const at::Tensor&) { return output.slice(0, 0, 1).sum(); }, batch, batch,
      options, communicator);
  // What stages are to sleep: what they sleep longer, as cores are busy, counts as idle.
  result.computing = stage_seconds(costs, 0, static_cast<std::int64_t>(costs.size())) / result.ranks;
  result.bubble = 1 - result.computing / result.step_mean;
  return result;
}

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
    const LayeredWorkload workload = make_layered_workload(name, batch);
    result = run_steps(workload.layers, loss, workload.input, workload.target, options, communicator);
  }
  if (!compares) return result;
  std::vector<double> alone{0};
  if (communicator.rank() == 0) {
    LayeredWorkload workload = make_layered_workload(name, batch);
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

}  // namespace kolo::bench
