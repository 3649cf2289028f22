#include "train/record.hpp"

#include <ATen/Parallel.h>
#include <torch/optim/sgd.h>
#include <torch/utils.h>
#include <torch/version.h>

#include <algorithm>
#include <chrono>
#include <fstream>

#include "train/accumulation_hook.hpp"
#include "train/statistics.hpp"

namespace kolo::bench {
namespace {

using Clock = std::chrono::steady_clock;
constexpr int kWarmUp = 3;

double since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

std::string processor() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("model name")) return line.substr(line.find(':') + 2);
  }
  return "unknown processor";
}

}  // namespace

Trace record(const std::string& model, std::int64_t batch, int steps) {
  at::set_num_threads(1);
  torch::manual_seed(1);
  const Workload workload = make_workload(model, batch);
  const auto parameters = workload.module->named_parameters();
  torch::optim::SGD optimizer(workload.module->parameters(), torch::optim::SGDOptions(0.001).momentum(0.9));

  Clock::time_point backward_begin;
  std::vector<std::vector<double>> ready(parameters.size());
  std::vector<AccumulationHook::Node> nodes;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    nodes.push_back(
        AccumulationHook::add(parameters[i].value(), [&, i] { ready[i].push_back(since(backward_begin)); }));
  }
  std::vector<double> forward, backward, update;
  for (int step = 0; step < kWarmUp + steps; ++step) {
    if (step == kWarmUp) {
      for (auto* times : {&forward, &backward, &update}) times->clear();
      for (auto& times : ready) times.clear();
    }
    const auto begin = Clock::now();
    const at::Tensor loss = workload.loss();
    forward.push_back(since(begin));
    backward_begin = Clock::now();
    loss.backward();
    backward.push_back(since(backward_begin));
    const auto update_begin = Clock::now();
    optimizer.step();
    // In place, as libtorch 1.13 does it: gradients live in buckets.
    for (const auto& parameter : parameters) parameter.value().mutable_grad().zero_();
    update.push_back(since(update_begin));
  }

  Trace trace{model, "", batch, workload.tokens, median(forward), median(backward), median(update), {}};
  trace.machine = processor() + ", libtorch " TORCH_VERSION;
  for (std::size_t i = 0; i < parameters.size(); ++i)
    trace.parameters.push_back({parameters[i].key(), parameters[i].value().sizes().vec(), median(ready[i])});
  return trace;
}

}  // namespace kolo::bench
