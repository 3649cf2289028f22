#include "train/hybrid_command.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <string>

#include "kolo/kolo.hpp"
#include "train/hybrid_replay.hpp"
#include "train/json_output.hpp"

namespace kolo::bench {

struct HybridCommand::Settings {
  std::string profile, shard;
  HybridReplayOptions replay;
  JsonOutput output;
};

HybridCommand::HybridCommand(CLI::App& app)
    : settings_(std::make_unique<Settings>()),
      command_(app.add_subcommand("hybrid",
                                  "Replays a way of `kolo plan training`: replicas, stages, shared layers")) {
  Settings& s = *settings_;
  HybridReplayOptions& replay = s.replay;
  command_
      ->add_option("--profile", s.profile,
                   "What each layer computes, keeps and sends: see kolo plan training")
      ->required();
  command_->add_option("--data", replay.grid.data, "Replicas")->check(CLI::PositiveNumber);
  command_->add_option("--tensor", replay.grid.tensor, "Ranks that share layers")->check(CLI::PositiveNumber);
  command_->add_option("--pipeline", replay.grid.pipeline, "Stages")->check(CLI::PositiveNumber);
  command_->add_option("--borders", replay.borders, "First layer of each stage but the first")
      ->delimiter(',');
  command_->add_option("--micro-batches", replay.micro_batches, "Of a replica's step")
      ->check(CLI::PositiveNumber);
  command_->add_option("--batches", replay.batches, "Of the profile in a replica's step")
      ->check(CLI::PositiveNumber);
  command_->add_option("--shard", s.shard, "What replicas divide among themselves")
      ->check(CLI::IsMember(shard_names()));
  command_
      ->add_option("--state", replay.state_per_parameter, "Bytes of the optimizer's state for a parameter")
      ->check(CLI::NonNegativeNumber);
  command_->add_flag("--memory", replay.measures_memory,
                     "Keeps activations and looks at the memory, not at times");
  command_->add_option("--steps", replay.steps, "Steps that count")->check(CLI::PositiveNumber);
  s.output.add_to(*command_);
}

HybridCommand::~HybridCommand() = default;

bool HybridCommand::parsed() const {
  return command_->parsed();
}

void HybridCommand::run(bool speaks) const {
  const Settings& s = *settings_;
  HybridReplayOptions options = s.replay;
  if (!s.shard.empty()) options.shard = parse_shard(s.shard);
  const std::vector<HybridLayer> layers = read_hybrid_profile(s.profile);
  Communicator communicator = Communicator::create();
  const HybridReplayResult result = replay_hybrid(layers, communicator, options);
  if (!speaks) return;
  const nlohmann::json json = {{"kind", "replayed"},
                               {"ranks", communicator.size()},
                               {"step_s", result.step},
                               {"step_mean_s", result.step_mean},
                               {"peak_bytes", result.peak_bytes}};
  if (s.output.write(json)) return;
  if (options.measures_memory) {
    fmt::print("hybrid: {} ranks, {:.1f} MB at most\n", communicator.size(), 1e-6 * result.peak_bytes);
  } else {
    fmt::print("hybrid: {} ranks, a step of {:.2f} ms, the median; mean {:.2f} ms\n", communicator.size(),
               1e3 * result.step, 1e3 * result.step_mean);
  }
}

}  // namespace kolo::bench
