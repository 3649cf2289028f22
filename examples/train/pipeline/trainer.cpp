#include "pipeline/trainer.hpp"

#include "kolo/train/libtorch.hpp"

#include <ATen/Functions.h>
#include <torch/nn/functional/loss.h>
#include <torch/optim/sgd.h>
#include <torch/utils.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <vector>

#include "fashion_mnist/data.hpp"
#include "kolo/kolo.hpp"
#include "kolo/train/averages.hpp"
#include "kolo/train/data.hpp"
#include "kolo/train/pipeline_parallel.hpp"
#include "pipeline/model.hpp"
#include "pipeline/profile.hpp"
#include "support/on_all_ranks.hpp"
#include "support/results.hpp"

namespace pipeline {
namespace {

using fashion_mnist::Dataset;

/// Where this rank is: ranks of one pipeline follow each other.
struct Place {
  Place(const Options& options, kolo::Communicator& communicator)
      : stages(communicator.size() / options.replicas),
        replica(communicator.rank() / std::max(1, stages)),
        batch(options.batch / options.replicas) {
    if (communicator.size() % options.replicas != 0) {
      throw std::invalid_argument(std::to_string(communicator.size()) + " ranks cannot be divided into " +
                                  std::to_string(options.replicas) + " pipelines");
    }
    if (options.batch % (options.replicas * options.micro_batches) != 0) {
      throw std::invalid_argument("a batch of " + std::to_string(options.batch) + " cannot be cut into " +
                                  std::to_string(options.replicas) + " x " +
                                  std::to_string(options.micro_batches) + " equal micro-batches");
    }
    ranks = communicator.split(replica);
    if (options.replicas > 1) data = communicator.split(ranks.rank());
  }

  int stages, replica;
  std::int64_t batch;  ///< samples of a step in this pipeline
  kolo::Communicator ranks, data;
};

/// [n, 784]
at::Tensor rows(const at::Tensor& images) {
  return images.flatten(1);
}

at::Tensor loss_of(const at::Tensor& scores, const at::Tensor& labels) {
  return torch::nn::functional::cross_entropy(scores, labels);
}

void set_rate(torch::optim::SGD& optimizer, double rate) {
  for (auto& group : optimizer.param_groups())
    static_cast<torch::optim::SGDOptions&>(group.options()).lr(rate);
}

/// Collective over the pipeline: the accuracy on the last rank, in percent; 0 elsewhere.
double accuracy_of(kolo::PipelineParallel& net, const Dataset& test, const Options& options) {
  for (const kolo::PipelineStage& stage : net.stages()) stage.module->eval();
  std::int64_t right = 0;
  for (std::int64_t begin = 0; begin < test.size(); begin += options.batch) {
    const Dataset part = test.slice(begin, std::min(test.size(), begin + options.batch));
    const at::Tensor scores = net.forward(rows(part.images));
    if (scores.defined()) right += scores.argmax(1).eq(part.labels).sum().item<std::int64_t>();
  }
  for (const kolo::PipelineStage& stage : net.stages()) stage.module->train();
  return 100 * static_cast<double>(right) / static_cast<double>(test.size());
}

/// Collective: what each rank of the pipeline says.
template <typename Value>
std::vector<Value> of_all(Value mine, kolo::Communicator& communicator) {
  std::vector<Value> all(static_cast<std::size_t>(communicator.size()));
  communicator.all_gather(kolo::ConstBuffer(&mine, 1, kolo::dtype_of<Value>), kolo::Buffer(all));
  return all;
}

struct Curve {
  std::vector<double> losses, seconds, accuracies;
};

Curve run_steps(const Options& options, Place& place, kolo::PipelineParallel& net, const Dataset& images,
                const Dataset& test, bool speaks) {
  torch::optim::SGD optimizer(net.parameters(),
                              torch::optim::SGDOptions(options.learning_rate).momentum(0.9).nesterov(true));
  kolo::DistributedSampler sampler(images.size(), place.replica, options.replicas,
                                   {.seed = options.seed, .drop_last = true});
  const std::int64_t in_epoch = images.size() / options.batch;
  std::int64_t steps = std::llround(options.epochs * static_cast<double>(in_epoch));
  if (options.steps > 0) steps = std::min(steps, options.steps);
  if (steps == 0) throw std::invalid_argument("there are fewer images than a batch has");
  Curve curve;
  at::Tensor order;
  for (std::int64_t step = 0; step < steps; ++step) {
    const std::int64_t in_this = step % in_epoch;
    if (in_this == 0) {
      sampler.set_epoch(static_cast<std::uint64_t>(step / in_epoch));
      order = at::tensor(sampler.indices(), at::kLong);
    }
    const at::Tensor chosen = order.slice(0, in_this * place.batch, (in_this + 1) * place.batch);
    const auto begin = std::chrono::steady_clock::now();
    set_rate(optimizer, options.learning_rate * (1 - static_cast<double>(step) / static_cast<double>(steps)));
    optimizer.zero_grad();
    net.step(rows(images.images.index_select(0, chosen)), images.labels.index_select(0, chosen));
    optimizer.step();
    curve.losses.push_back(net.mean_loss());
    curve.seconds.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
    if (in_this + 1 < in_epoch && step + 1 < steps) continue;
    std::vector<double> accuracy{accuracy_of(net, test, options)};
    place.ranks.broadcast(kolo::Buffer(accuracy), place.stages - 1);
    curve.accuracies.push_back(accuracy[0]);
    if (speaks) {
      std::printf("step %lld of %lld: loss %.4f, test accuracy %.2f %%\n", static_cast<long long>(step + 1),
                  static_cast<long long>(steps), curve.losses.back(), accuracy[0]);
      std::fflush(stdout);
    }
  }
  return curve;
}

}  // namespace

nlohmann::json train(const Options& options, kolo::Communicator& communicator) {
  const bool speaks = communicator.rank() == 0;
  Place place(options, communicator);
  const auto [images, test] = support::on_all_ranks(communicator, [&] {
    return std::pair(fashion_mnist::load(options.data, true, options.limit),
                     fashion_mnist::load(options.data, false));
  });
  if (!options.profile.empty()) {
    support::on_all_ranks(communicator, [&] {
      if (speaks) write_profile(options.profile, options, place.batch);
      return true;
    });
  }
  std::vector<std::int64_t> borders = options.borders;
  if (options.partitions) {
    borders = measured_borders(options, place.batch / options.micro_batches, place.stages * options.chunks,
                               communicator);
  }
  kolo::PipelineParallel net(kolo::PipelineModel{make_layers(options), borders}, loss_of, place.ranks,
                             {.schedule = kolo::parse_pipeline_schedule(options.schedule),
                              .micro_batches = options.micro_batches,
                              .chunks = options.chunks,
                              .recompute = options.recompute,
                              .data = place.data});
  // From here on each rank draws its own.
  torch::manual_seed(options.seed + 1 + static_cast<std::uint64_t>(communicator.rank()));
  std::int64_t own = 0;
  for (const at::Tensor& parameter : net.parameters()) own += parameter.numel();
  const Curve curve = run_steps(options, place, net, images, test, speaks);
  const std::vector<std::int64_t> parameters = of_all(own, place.ranks);
  const std::vector<double> bubbles = of_all(net.statistics().bubble(), place.ranks);
  const std::vector<int> most_held = of_all(net.statistics().most_held, place.ranks);
  const auto [mean, median] = support::step_times(curve.seconds);
  if (speaks) {
    std::printf("%d stages, %d pipelines: %.1f ms a step (median %.1f)\n", place.stages * options.chunks,
                options.replicas, 1e3 * mean, 1e3 * median);
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      std::printf("  rank %zu: %lld parameters, idle for %.1f %% of its steps, %d micro-batches held\n", i,
                  static_cast<long long>(parameters[i]), 100 * bubbles[i], most_held[i]);
    }
  }
  return {{"schedule", options.schedule},
          {"stages", place.stages * options.chunks},
          {"replicas", options.replicas},
          {"micro_batches", options.micro_batches},
          {"recompute", options.recompute},
          {"borders", borders},
          {"loss", curve.losses},
          {"test_accuracy", curve.accuracies},
          {"step_seconds", curve.seconds},
          {"mean_step_s", mean},
          {"median_step_s", median},
          {"parameters", parameters},
          {"bubble", bubbles},
          {"most_held", most_held}};
}

}  // namespace pipeline
