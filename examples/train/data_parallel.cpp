// train_data_parallel: one network, trained by replicas in the threads of one process or by ranks. The curve
// is the same.
//
//     train_data_parallel --replicas 4
//     kolo run -n 4 -- train_data_parallel --workers ranks
#include "kolo/train/libtorch.hpp"

#include <ATen/Functions.h>
#include <ATen/Parallel.h>
#include <torch/nn/cloneable.h>
#include <torch/nn/functional/loss.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>
#include <torch/optim/sgd.h>
#include <torch/utils.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "kolo/kolo.hpp"
#include "kolo/train/distributed_data_parallel.hpp"
#include "methods/data_parallel.hpp"
#include "support/command_line.hpp"
#include "support/results.hpp"

namespace {

struct Settings {
  std::string workers = "replicas";
  int replicas = 2;
  std::int64_t batch = 256;
  std::int64_t hidden = 256;
  std::int64_t steps = 100;
  double learning_rate = 0.05;
  std::uint64_t seed = 1;
  std::string json;
};

std::optional<int> parse(int argc, char** argv, bool speak, Settings& settings) {
  CLI::App app("Trains a convolutional network on made-up images of ten kinds.");
  app.option_defaults()->always_capture_default();
  app.add_option("--workers", settings.workers,
                 "replicas: threads of one process (DataParallel); ranks: those of the job, each a process "
                 "(DistributedDataParallel)")
      ->check(CLI::IsMember({"replicas", "ranks"}));
  app.add_option("--replicas", settings.replicas, "How many replicas")->check(CLI::PositiveNumber);
  app.add_option("--batch", settings.batch, "Images in a step, of all workers")->check(CLI::PositiveNumber);
  app.add_option("--hidden", settings.hidden, "Width of the hidden layer, which has most of the parameters")
      ->check(CLI::PositiveNumber);
  app.add_option("--steps", settings.steps, "Steps")->check(CLI::PositiveNumber);
  app.add_option("--lr", settings.learning_rate, "Learning rate")->check(CLI::PositiveNumber);
  app.add_option("--seed", settings.seed, "Of the initial values and the images");
  app.add_option("--json", settings.json, "File for all numbers");
  return support::parse(app, argc, argv, speak);
}

/// Cloneable, so that DataParallel can make replicas: all that is registered is made in reset().
struct NetImpl : torch::nn::Cloneable<NetImpl> {
  explicit NetImpl(std::int64_t width_) : width(width_) { reset(); }
  void reset() override {
    conv1 = register_module("conv1", torch::nn::Conv2d(torch::nn::Conv2dOptions(1, 16, 3).padding(1)));
    conv2 = register_module("conv2", torch::nn::Conv2d(torch::nn::Conv2dOptions(16, 32, 3).padding(1)));
    hidden = register_module("hidden", torch::nn::Linear(32 * 7 * 7, width));
    output = register_module("output", torch::nn::Linear(width, 10));
  }
  at::Tensor forward(const at::Tensor& images) {
    at::Tensor x = at::relu(at::max_pool2d(conv1(images), 2));
    x = at::relu(at::max_pool2d(conv2(x), 2));
    return output(at::relu(hidden(x.flatten(1))));
  }

  std::int64_t width;
  torch::nn::Conv2d conv1{nullptr}, conv2{nullptr};
  torch::nn::Linear hidden{nullptr}, output{nullptr};
};
TORCH_MODULE(Net);

struct Batch {
  at::Tensor images, labels;
};

/// Ten pictures, and noise over them: the same batch in a step, whatever the workers.
Batch batch_of(const Settings& settings, std::int64_t step) {
  torch::manual_seed(settings.seed);
  const at::Tensor pictures = at::randn({10, 1, 28, 28});
  torch::manual_seed(settings.seed + 1'000'003 * static_cast<std::uint64_t>(step + 1));
  const at::Tensor labels = at::randint(10, {settings.batch}, at::kLong);
  return {pictures.index_select(0, labels) + at::randn({settings.batch, 1, 28, 28}), labels};
}

struct Results {
  std::vector<double> losses;   ///< of the whole batch
  std::vector<double> seconds;  ///< of each step, of the slowest rank
  double sent_bytes = 0;        ///< a step, of the rank that sends most
};

/// `share`: of a batch, what this process gives `model`. `agree`: makes a step's loss and seconds those of
/// all processes.
template <typename Model, typename Share, typename Agree>
Results train(const Settings& settings, Model& model, const Share& share, const Agree& agree) {
  torch::optim::SGD optimizer(model.parameters(),
                              torch::optim::SGDOptions(settings.learning_rate).momentum(0.9));
  Results results;
  for (std::int64_t step = 0; step < settings.steps; ++step) {
    const Batch all = batch_of(settings, step);
    const at::Tensor images = share(all.images), labels = share(all.labels);
    const auto begin = std::chrono::steady_clock::now();
    optimizer.zero_grad();
    const at::Tensor loss = torch::nn::functional::cross_entropy(model(images), labels);
    loss.backward();
    optimizer.step();
    double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    double mean = loss.item<double>();
    agree(mean, seconds);
    results.losses.push_back(mean);
    results.seconds.push_back(seconds);
  }
  return results;
}

Results train_replicas(const Settings& settings) {
  torch::manual_seed(settings.seed);
  kolo::methods::DataParallel model(Net(settings.hidden),
                                    {.replicas = settings.replicas, .threads_per_replica = 1});
  return train(
      settings, model, [](const at::Tensor& all) { return all; }, [](double, double) {});
}

Results train_ranks(const Settings& settings, kolo::Communicator& communicator) {
  if (settings.batch % communicator.size() != 0) {
    throw std::invalid_argument("a batch of " + std::to_string(settings.batch) + " cannot be shared by " +
                                std::to_string(communicator.size()) + " ranks");
  }
  torch::manual_seed(settings.seed);
  kolo::DistributedDataParallel model(Net(settings.hidden), communicator);
  const std::int64_t own = settings.batch / communicator.size();
  const auto share = [&](const at::Tensor& all) {
    return all.slice(0, own * communicator.rank(), own * (communicator.rank() + 1));
  };
  const std::uint64_t before = communicator.counters().bytes_sent;
  Results results = train(settings, model, share, [&](double& loss, double& seconds) {
    communicator.all_reduce(kolo::Buffer(&loss, 1, kolo::DType::float64), kolo::ReduceOp::average);
    communicator.all_reduce(kolo::Buffer(&seconds, 1, kolo::DType::float64), kolo::ReduceOp::max);
  });
  results.sent_bytes =
      static_cast<double>(communicator.counters().bytes_sent - before) / static_cast<double>(settings.steps);
  communicator.all_reduce(kolo::Buffer(&results.sent_bytes, 1, kolo::DType::float64), kolo::ReduceOp::max);
  return results;
}

void report(const Settings& settings, const Results& results, int workers) {
  const auto [mean, median] = support::step_times(results.seconds);
  std::printf("%d %s: loss %.4f to %.4f, %.1f ms a step (median %.1f)\n", workers, settings.workers.c_str(),
              results.losses.front(), results.losses.back(), 1e3 * mean, 1e3 * median);
  support::write_json(settings.json, {{"workers", settings.workers},
                                      {"number", workers},
                                      {"batch", settings.batch},
                                      {"hidden", settings.hidden},
                                      {"seed", settings.seed},
                                      {"loss", results.losses},
                                      {"step_seconds", results.seconds},
                                      {"mean_step_s", mean},
                                      {"median_step_s", median},
                                      {"sent_bytes_per_step", results.sent_bytes}});
}

}  // namespace

int main(int argc, char** argv) {
  return support::run_program<Settings>("train_data_parallel", argc, argv, parse,
                                        [](const Settings& settings) {
                                          at::set_num_threads(1);  // one a worker, in either way
                                          if (settings.workers == "replicas") {
                                            report(settings, train_replicas(settings), settings.replicas);
                                          } else {
                                            kolo::Communicator communicator = kolo::Communicator::create();
                                            const Results results = train_ranks(settings, communicator);
                                            if (communicator.rank() == 0)
                                              report(settings, results, communicator.size());
                                          }
                                          return 0;
                                        });
}
