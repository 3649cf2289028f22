// train_overlap: one network, trained with averages that backward hides or that the next forward hides. The
// losses are the same, the steps are not as long.
//
//     kolo run -n 2 -- train_overlap
//     scripts/cluster --hosts 4 --rate 1gbit -- train_overlap --under forward
#include "kolo/train/libtorch.hpp"

#include <ATen/Functions.h>
#include <ATen/Parallel.h>
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/linear.h>
#include <torch/optim/sgd.h>
#include <torch/utils.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "kolo/kolo.hpp"
#include "kolo/train/distributed_data_parallel.hpp"
#include "support/command_line.hpp"
#include "support/results.hpp"

namespace {

struct Settings {
  std::string under = "backward";
  std::string borders = "sizes";
  bool static_graph = false;
  std::int64_t width = 512;
  std::int64_t layers = 8;
  std::int64_t batch = 64;
  std::int64_t steps = 100;
  double learning_rate = 0.02;
  std::string json;
};

std::optional<int> parse(int argc, char** argv, bool speak, Settings& settings) {
  CLI::App app("Trains a network of linear layers to compute what another one computes.");
  app.option_defaults()->always_capture_default();
  app.add_option("--under", settings.under,
                 "What averages are hidden under: backward; or what is left of it and the next forward "
                 "(overlap_forward)")
      ->check(CLI::IsMember({"backward", "forward"}));
  app.add_option("--borders", settings.borders, "Borders of buckets by sizes, or by times of the first steps")
      ->check(CLI::IsMember({"sizes", "measured"}));
  app.add_flag("--static-graph", settings.static_graph,
               "Promise that each backward uses the same parameters");
  app.add_option("--width", settings.width, "Of each layer")->check(CLI::PositiveNumber);
  app.add_option("--layers", settings.layers, "Layers")->check(CLI::PositiveNumber);
  app.add_option("--batch", settings.batch, "Samples in a step, of each rank")->check(CLI::PositiveNumber);
  app.add_option("--steps", settings.steps, "Steps")->check(CLI::PositiveNumber);
  app.add_option("--lr", settings.learning_rate, "Learning rate")->check(CLI::PositiveNumber);
  app.add_option("--json", settings.json, "File for all numbers");
  return support::parse(app, argc, argv, speak);
}

torch::nn::Sequential network(const Settings& settings) {
  torch::nn::Sequential net;
  for (std::int64_t i = 0; i < settings.layers; ++i) {
    if (i > 0) net->push_back(torch::nn::Tanh());
    net->push_back(torch::nn::Linear(settings.width, settings.width));
  }
  return net;
}

struct Results {
  std::vector<double> losses;   ///< means over the ranks
  std::vector<double> seconds;  ///< of each step, of the slowest rank
  double exposed = 0;           ///< seconds a step that rank 0 waited for averages
  std::size_t buckets = 0;
};

Results train(const Settings& settings, kolo::Communicator& communicator) {
  const auto make_optimizer = [&settings](const std::vector<at::Tensor>& parameters) {
    return std::make_unique<torch::optim::SGD>(
        parameters, torch::optim::SGDOptions(settings.learning_rate).momentum(0.9));
  };
  const bool in_forward = settings.under == "forward";
  kolo::DistributedDataParallelOptions options;
  if (in_forward) options.overlap_forward = make_optimizer;
  if (settings.borders == "measured") options.bucket_borders = kolo::BucketBorders::measured;
  options.static_graph = settings.static_graph;

  torch::manual_seed(1);
  torch::nn::Sequential teacher = network(settings);
  kolo::DistributedDataParallel model(network(settings), communicator, options);
  const auto optimizer = in_forward ? nullptr : make_optimizer(model.parameters());
  torch::manual_seed(2 + static_cast<std::uint64_t>(communicator.rank()));
  Results results;
  for (std::int64_t step = 0; step < settings.steps; ++step) {
    const at::Tensor input = at::randn({settings.batch, settings.width});
    const at::Tensor wanted = 10 * teacher->forward(input).detach();
    const auto begin = std::chrono::steady_clock::now();
    // With overlap_forward kolo steps and zeroes: a bucket's optimizer, before its parameters' next use.
    if (optimizer) optimizer->zero_grad();
    const at::Tensor loss = (10 * model(input) - wanted).square().mean();
    loss.backward();
    if (optimizer) optimizer->step();
    results.seconds.push_back(
        std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
    results.losses.push_back(loss.item<double>());
  }
  model.finish_step();  // the last one has no forward after it
  results.exposed =
      std::chrono::duration<double>(model.total().exposed).count() / static_cast<double>(settings.steps);
  results.buckets = model.buckets().size();
  communicator.all_reduce(kolo::Buffer(results.losses), kolo::ReduceOp::average);
  communicator.all_reduce(kolo::Buffer(results.seconds), kolo::ReduceOp::max);
  return results;
}

void report(const Settings& settings, const Results& results, int ranks) {
  const auto [mean, median] = support::step_times(results.seconds);
  std::printf(
      "%d ranks, under %s: loss %.4f to %.4f, %.1f ms a step (median %.1f), %.1f ms exposed, %zu buckets\n",
      ranks, settings.under.c_str(), results.losses.front(), results.losses.back(), 1e3 * mean, 1e3 * median,
      1e3 * results.exposed, results.buckets);
  support::write_json(settings.json, {{"under", settings.under},
                                      {"borders", settings.borders},
                                      {"static_graph", settings.static_graph},
                                      {"ranks", ranks},
                                      {"loss", results.losses},
                                      {"step_seconds", results.seconds},
                                      {"mean_step_s", mean},
                                      {"median_step_s", median},
                                      {"exposed_s", results.exposed},
                                      {"buckets", results.buckets}});
}

}  // namespace

int main(int argc, char** argv) {
  return support::run_program<Settings>("train_overlap", argc, argv, parse, [](const Settings& settings) {
    at::set_num_threads(1);
    kolo::Communicator communicator = kolo::Communicator::create();
    const Results results = train(settings, communicator);
    if (communicator.rank() == 0) report(settings, results, communicator.size());
    return 0;
  });
}
