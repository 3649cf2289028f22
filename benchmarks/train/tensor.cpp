// bench_train tensor: replays layers that are divided among the ranks, with timed waits and real sums.
#include <algorithm>
#include <cstdint>
#include <memory>
#include <ranges>
#include <string>
#include <vector>

#include "kolo/kolo.hpp"
#include "train/commands.hpp"
#include "train/json.hpp"
#include "train/timing.hpp"

namespace kolo::bench {
namespace {

struct TensorSettings {
  std::string profile;
  double slower = 1;  ///< factor of all times of the profile
  int steps = 5;
  /// An all_gather before and a reduce_scatter after each half of a layer, in place of an all_reduce.
  bool sequence = false;
  JsonOutput output;
};

struct ProfiledLayer {
  double forward = 0, backward = 0;  ///< seconds, on one rank
  std::uint64_t sums = 0;            ///< bytes that forward, and backward again, sums; 0: not divided
};

struct TensorResult {
  double step = 0, step_mean = 0;  ///< seconds, of the slowest rank
  double alone_mean = 0;           ///< of one rank with all layers
  double communication = 0;        ///< a step without computation
  double sent_bytes = 0;           ///< a step, of the rank that sends most
};

constexpr int kHalves = 2;  // attention and feed-forward

class DividedStep {
 public:
  DividedStep(const std::vector<ProfiledLayer>& layers, Communicator& communicator, bool sequence)
      : layers_(layers), communicator_(communicator), sequence_(sequence) {
    std::size_t most = 0;
    for (const ProfiledLayer& layer : layers) most = std::max(most, elements_of(layer));
    whole_.assign(most, 1.0f);
    part_.assign(most / static_cast<std::size_t>(communicator.size()), 1.0f);
  }

  /// Returns the seconds. `computes`: sleeps too; else it only sums.
  double run(bool computes) {
    communicator_.barrier();
    const auto begin = Clock::now();
    for (const ProfiledLayer& layer : layers_) run_layer(layer, computes ? layer.forward : 0);
    for (const ProfiledLayer& layer : layers_ | std::views::reverse)
      run_layer(layer, computes ? layer.backward : 0);
    return seconds_since(begin);
  }

 private:
  /// Elements of one sum, a multiple of the number of ranks.
  std::size_t elements_of(const ProfiledLayer& layer) const {
    const auto size = static_cast<std::size_t>(communicator_.size());
    return layer.sums / (4 * kHalves) / size * size;
  }

  void run_layer(const ProfiledLayer& layer, double seconds) {
    const std::size_t elements = elements_of(layer);
    if (elements == 0) return sleep_for(seconds);
    const Buffer whole(whole_.data(), elements, DType::float32);
    const Buffer part(part_.data(), elements / static_cast<std::size_t>(communicator_.size()),
                      DType::float32);
    for (int half = 0; half < kHalves; ++half) {
      // Averages in place of sums, so that values do not grow.
      if (sequence_) communicator_.all_gather(part, whole);
      sleep_for(seconds / (kHalves * communicator_.size()));
      if (sequence_) {
        communicator_.reduce_scatter(whole, part, ReduceOp::average);
      } else {
        communicator_.all_reduce(whole, ReduceOp::average);
      }
    }
  }

  const std::vector<ProfiledLayer>& layers_;
  Communicator& communicator_;
  bool sequence_;
  std::vector<float> whole_, part_;
};

/// One rank with all layers, without messages.
double run_alone(const std::vector<ProfiledLayer>& layers) {
  const auto begin = Clock::now();
  for (const ProfiledLayer& layer : layers) sleep_for(layer.forward);
  for (const ProfiledLayer& layer : layers | std::views::reverse) sleep_for(layer.backward);
  return seconds_since(begin);
}

/// Collective. Each half of a divided layer computes for 1/N of its time and sums half of the layer's bytes.
/// Other layers compute whole on all ranks. Steps of one rank alone are interleaved.
TensorResult replay_tensor(const std::vector<ProfiledLayer>& layers, Communicator& communicator,
                           const TensorSettings& settings) {
  DividedStep divided(layers, communicator, settings.sequence);
  divided.run(false);
  std::vector<double> steps, alone, communication;
  std::uint64_t sent = 0;
  for (int step = 0; step < settings.steps; ++step) {
    const std::uint64_t before = communicator.counters().bytes_sent;
    const double took = divided.run(true);
    sent = communicator.counters().bytes_sent - before;
    steps.push_back(largest_of_all(communicator, took));
    communication.push_back(largest_of_all(communicator, divided.run(false)));
    alone.push_back(largest_of_all(communicator, run_alone(layers)));
  }
  return {.step = median(steps),
          .step_mean = mean(steps),
          .alone_mean = mean(alone),
          .communication = mean(communication),
          .sent_bytes = largest_of_all(communicator, static_cast<double>(sent))};
}

void run_tensor(TensorSettings& settings, bool speaks) {
  auto layers = read_layers<ProfiledLayer>(settings.profile, [](const nlohmann::json& layer) {
    return ProfiledLayer{seconds_at(layer, "forward_ms"), seconds_at(layer, "backward_ms"),
                         layer.value("tensor_sums", std::uint64_t{0})};
  });
  for (ProfiledLayer& layer : layers) {
    layer.forward *= settings.slower;
    layer.backward *= settings.slower;
  }
  if (speaks) settings.output.open();
  Communicator communicator = Communicator::create();
  const TensorResult result = replay_tensor(layers, communicator, settings);
  if (!speaks) return;
  const nlohmann::json json = {{"kind", "replayed"},
                               {"ranks", communicator.size()},
                               {"sequence", settings.sequence},
                               {"slower", settings.slower},
                               {"step_s", result.step},
                               {"step_mean_s", result.step_mean},
                               {"alone_mean_s", result.alone_mean},
                               {"communication_s", result.communication},
                               {"sent_bytes", result.sent_bytes}};
  if (settings.output.write(json)) return;
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

}  // namespace

void add_tensor(CLI::App& app, bool speaks) {
  const auto settings = std::make_shared<TensorSettings>();
  CLI::App* command = app.add_subcommand("tensor", "Replays layers that are divided among the ranks");
  command->add_option("--profile", settings->profile, "Times and sums of layers, which train_tensor writes")
      ->required();
  command->add_option("--slower", settings->slower, "All times of the profile so many times as long")
      ->check(CLI::PositiveNumber);
  command->add_option("--steps", settings->steps, "Steps that count")->check(CLI::PositiveNumber);
  command->add_flag("--sequence", settings->sequence,
                    "Gathers and scattered sums in place of all_reduces, as with slices of the sequence");
  settings->output.add_to(*command);
  command->callback([settings, speaks] { run_tensor(*settings, speaks); });
}

}  // namespace kolo::bench
