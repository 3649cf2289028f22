// bench_train record: a trace of a model's training step on one core.
#include <ATen/Parallel.h>
#include <fmt/format.h>
#include <torch/optim/sgd.h>
#include <torch/utils.h>
#include <torch/version.h>

#include <fstream>
#include <memory>

#include "train/accumulation_hook.hpp"
#include "train/commands.hpp"
#include "train/models.hpp"
#include "train/timing.hpp"
#include "train/trace.hpp"

namespace kolo::bench {
namespace {

constexpr int kWarmUp = 3;

std::string processor() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("model name")) return line.substr(line.find(':') + 2);
  }
  return "unknown processor";
}

/// Medians of `steps` steps of SGD with momentum. The first steps do not count.
Trace record(const std::string& model, std::int64_t batch, int steps) {
  at::set_num_threads(1);
  torch::manual_seed(1);
  const Workload workload = workloads().at(model)(batch);
  const auto parameters = workload.module->named_parameters();
  torch::optim::SGD optimizer(workload.module->parameters(), torch::optim::SGDOptions(0.001).momentum(0.9));

  Clock::time_point backward_begin;
  std::vector<std::vector<double>> ready(parameters.size());
  std::vector<AccumulationHook::Node> nodes;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    nodes.push_back(AccumulationHook::add(parameters[i].value(),
                                          [&, i] { ready[i].push_back(seconds_since(backward_begin)); }));
  }
  std::vector<double> forward, backward, update;
  for (int step = 0; step < kWarmUp + steps; ++step) {
    if (step == kWarmUp) {
      for (auto* times : {&forward, &backward, &update}) times->clear();
      for (auto& times : ready) times.clear();
    }
    const auto begin = Clock::now();
    const at::Tensor loss = workload.loss();
    forward.push_back(seconds_since(begin));
    backward_begin = Clock::now();
    loss.backward();
    backward.push_back(seconds_since(backward_begin));
    const auto update_begin = Clock::now();
    optimizer.step();
    // In place, as with gradients that are views of buckets.
    for (const auto& parameter : parameters) parameter.value().mutable_grad().zero_();
    update.push_back(seconds_since(update_begin));
  }

  Trace trace{model, "", batch, workload.tokens, median(forward), median(backward), median(update), {}};
  trace.machine = processor() + ", libtorch " TORCH_VERSION;
  for (std::size_t i = 0; i < parameters.size(); ++i)
    trace.parameters.push_back({parameters[i].key(), parameters[i].value().sizes().vec(), median(ready[i])});
  return trace;
}

struct RecordSettings {
  std::string model = "mlp", output;
  std::int64_t batch = 64;
  int steps = 15;
};

}  // namespace

void add_record(CLI::App& app) {
  const auto settings = std::make_shared<RecordSettings>();
  CLI::App* command = app.add_subcommand("record", "Trains a model for some steps and writes their medians");
  command->add_option("--model", settings->model, "The network")->check(CLI::IsMember(workloads()));
  command->add_option("--batch", settings->batch, "Samples a step")->check(CLI::PositiveNumber);
  command->add_option("--steps", settings->steps, "Steps that count")->check(CLI::PositiveNumber);
  command->add_option("--output", settings->output, "The file")->required();
  command->callback([settings] {
    const Trace trace = record(settings->model, settings->batch, settings->steps);
    write_trace(settings->output, trace);
    fmt::print("{}: forward {:.2f} ms, backward {:.2f} ms, optimizer {:.2f} ms, {:.1f} MB of gradients\n",
               settings->model, 1e3 * trace.forward, 1e3 * trace.backward, 1e3 * trace.optimizer,
               1e-6 * static_cast<double>(trace.bytes()));
  });
}

}  // namespace kolo::bench
