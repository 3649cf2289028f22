#include "train/tensor_command.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <string>

#include "kolo/kolo.hpp"
#include "train/json_output.hpp"
#include "train/tensor_replay.hpp"

namespace kolo::bench {

struct TensorCommand::Settings {
  std::string profile;
  TensorReplayOptions replay;
  double slower = 1;
  JsonOutput output;
};

TensorCommand::TensorCommand(CLI::App& app)
    : settings_(std::make_unique<Settings>()),
      command_(app.add_subcommand("tensor", "Replays layers that are divided among the ranks")) {
  Settings& s = *settings_;
  command_->add_option("--profile", s.profile, "Times and sums of layers, which train_tensor writes")
      ->required();
  command_->add_option("--slower", s.slower, "All times of the profile so many times as long")
      ->check(CLI::PositiveNumber);
  command_->add_option("--steps", s.replay.steps, "Steps that count")->check(CLI::PositiveNumber);
  command_->add_flag("--sequence", s.replay.sequence,
                     "Gathers and scattered sums in place of all_reduces, as with slices of the sequence");
  s.output.add_to(*command_);
}

TensorCommand::~TensorCommand() = default;

bool TensorCommand::parsed() const {
  return command_->parsed();
}

void TensorCommand::run(bool speaks) const {
  const Settings& s = *settings_;
  auto layers = read_profiled_layers(s.profile);
  for (ProfiledLayer& layer : layers) {
    layer.forward *= s.slower;
    layer.backward *= s.slower;
  }
  Communicator communicator = Communicator::create();
  const TensorReplayResult result = replay_tensor(layers, communicator, s.replay);
  if (!speaks) return;
  const nlohmann::json json = {{"kind", "replayed"},
                               {"ranks", communicator.size()},
                               {"sequence", s.replay.sequence},
                               {"slower", s.slower},
                               {"step_s", result.step},
                               {"step_mean_s", result.step_mean},
                               {"alone_mean_s", result.alone_mean},
                               {"communication_s", result.communication},
                               {"sent_bytes", result.sent_bytes}};
  if (s.output.write(json)) return;
  const auto row = [](const char* name, double seconds, const char* remark) {
    fmt::print("  {:<22}{:>10.2f} ms   {}\n", name, 1e3 * seconds, remark);
  };
  fmt::print("divided layers: {} ranks\n", communicator.size());
  row("one rank", result.alone_mean, "all layers, whole");
  row("step", result.step, fmt::format("median; mean {:.2f} ms", 1e3 * result.step_mean).c_str());
  row("communication alone", result.communication, "nothing computed");
  fmt::print("  {:<22}{:>10.2f}\n", "times as fast", result.alone_mean / result.step_mean);
  fmt::print("  {:<22}{:>10.0f} B    per rank and step\n", "sent", result.sent_bytes);
}

}  // namespace kolo::bench
