#include "train/pipeline_command.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdint>
#include <fstream>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <vector>

#include "kolo/kolo.hpp"
#include "kolo/train/partition.hpp"
#include "kolo/train/pipeline_parallel.hpp"
#include "train/json_output.hpp"
#include "train/pipeline_layers.hpp"
#include "train/pipeline_run.hpp"

namespace kolo::bench {
namespace {

/// A profile as train_pipeline --profile writes it.
std::vector<LayerCost> read_profile(const std::string& path) {
  std::ifstream file(path);
  try {
    const nlohmann::json profile = nlohmann::json::parse(file);
    std::vector<LayerCost> costs;
    for (const nlohmann::json& layer : profile.at("layers")) {
      costs.push_back({.name = layer.at("name"),
                       .forward_s = 1e-3 * layer.at("forward_ms").get<double>(),
                       .backward_s = 1e-3 * layer.at("backward_ms").get<double>(),
                       .output_bytes = layer.at("output_bytes")});
    }
    if (costs.empty()) throw std::runtime_error("it has no layers");
    return costs;
  } catch (const std::exception& error) {
    throw std::runtime_error("cannot read a profile from " + path + ": " + error.what());
  }
}

}  // namespace

struct PipelineCommand::Settings {
  std::string schedule = "1f1b", profile, network;
  PipelineRunOptions run;
  double forward_ms = 10, backward_ms = 20, slower = 1;
  std::uint64_t bytes = 65536;
  std::int64_t batch = 256;
  bool partitions = false, compares = false;
  JsonOutput output;
};

PipelineCommand::PipelineCommand(CLI::App& app)
    : settings_(std::make_unique<Settings>()),
      command_(
          app.add_subcommand("pipeline", "Runs a pipeline, a stage a rank, whose stages sleep or compute")) {
  Settings& s = *settings_;
  command_->add_option("--schedule", s.schedule, "The order of micro-batches")
      ->check(CLI::IsMember(pipeline_schedule_names()));
  command_->add_option("--micro-batches", s.run.micro_batches, "Of a step")->check(CLI::PositiveNumber);
  command_->add_option("--chunks", s.run.chunks, "Stages of a rank")->check(CLI::PositiveNumber);
  command_->add_option("--steps", s.run.steps, "Steps that count")->check(CLI::PositiveNumber);
  command_->add_option("--borders", s.run.borders, "First layer of each stage but the first; none: even")
      ->delimiter(',');
  command_->add_flag("--partition", s.partitions, "Borders from the times of the profile")
      ->excludes("--borders");
  command_->add_flag("--recompute", s.run.recompute, "Stages are computed anew in backward");
  command_->add_option("--forward-ms", s.forward_ms, "What all stages of a rank sleep for a micro-batch")
      ->check(CLI::NonNegativeNumber);
  command_->add_option("--backward-ms", s.backward_ms, "The same in backward")->check(CLI::NonNegativeNumber);
  command_->add_option("--bytes", s.bytes, "Of the output of a micro-batch");
  auto* profile = command_->add_option(
      "--profile", s.profile, "Sleeps as long as the layers in this file take, which train_pipeline writes");
  command_->add_option("--slower", s.slower, "All times of the profile so many times as long")
      ->check(CLI::PositiveNumber);
  auto* network = command_->add_option("--network", s.network, "Computes for real, one thread a rank")
                      ->check(CLI::IsMember(layered_workload_names()));
  network->excludes(profile);
  command_->add_option("--batch", s.batch, "Samples of a step, of a network")->check(CLI::PositiveNumber);
  command_->add_flag("--alone", s.compares, "Also one rank with the whole network")->needs(network);
  s.output.add_to(*command_);
}

PipelineCommand::~PipelineCommand() = default;

bool PipelineCommand::parsed() const {
  return command_->parsed();
}

void PipelineCommand::run(bool speaks) const {
  const Settings& s = *settings_;
  PipelineRunOptions options = s.run;
  options.schedule = parse_pipeline_schedule(s.schedule);
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
      costs = read_profile(s.profile);
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

}  // namespace kolo::bench
