#include "train/tensor_replay.hpp"

#include <algorithm>
#include <chrono>
#include <fstream>
#include <nlohmann/json.hpp>
#include <ranges>
#include <stdexcept>

#include "train/replayed_model.hpp"
#include "train/statistics.hpp"

namespace kolo::bench {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kHalves = 2;  // attention, and what follows it

class DividedStep {
 public:
  DividedStep(const std::vector<ProfiledLayer>& layers, Communicator& communicator, bool sequence)
      : layers_(layers), communicator_(communicator), sequence_(sequence) {
    std::size_t most = 0;
    for (const ProfiledLayer& layer : layers) most = std::max(most, elements_of(layer));
    whole_.assign(most, 1.0f);
    part_.assign(most / static_cast<std::size_t>(communicator.size()), 1.0f);
  }

  /// Returns what it took. `computes`: sleeps; else it sums alone.
  double run(bool computes) {
    communicator_.barrier();
    const auto begin = Clock::now();
    for (const ProfiledLayer& layer : layers_) run_layer(layer, computes ? layer.forward : 0);
    for (const ProfiledLayer& layer : layers_ | std::views::reverse)
      run_layer(layer, computes ? layer.backward : 0);
    return std::chrono::duration<double>(Clock::now() - begin).count();
  }

 private:
  /// float32 of one sum, which the ranks divide.
  std::size_t elements_of(const ProfiledLayer& layer) const {
    const auto size = static_cast<std::size_t>(communicator_.size());
    return layer.sums / (4 * kHalves) / size * size;
  }

  void run_layer(const ProfiledLayer& layer, double seconds) {
    const std::size_t elements = elements_of(layer);
    if (elements == 0) return compute(seconds);
    const Buffer whole(whole_.data(), elements, DType::float32);
    const Buffer part(part_.data(), elements / static_cast<std::size_t>(communicator_.size()),
                      DType::float32);
    for (int half = 0; half < kHalves; ++half) {
      // Averages in place of sums, so that numbers stay what they are.
      if (sequence_) communicator_.all_gather(part, whole);
      compute(seconds / (kHalves * communicator_.size()));
      if (sequence_) {
        communicator_.reduce_scatter(whole, part, ReduceOp::average);
      } else {
        communicator_.all_reduce(whole, ReduceOp::average);
      }
    }
  }

  static void compute(double seconds) { sleep_until(Clock::now() + from_seconds(seconds)); }

  const std::vector<ProfiledLayer>& layers_;
  Communicator& communicator_;
  bool sequence_;
  std::vector<float> whole_, part_;
};

/// One rank with all layers: nothing is sent.
double run_alone(const std::vector<ProfiledLayer>& layers) {
  const auto begin = Clock::now();
  for (const ProfiledLayer& layer : layers) sleep_until(Clock::now() + from_seconds(layer.forward));
  for (const ProfiledLayer& layer : layers | std::views::reverse)
    sleep_until(Clock::now() + from_seconds(layer.backward));
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

double most_of_all(Communicator& communicator, double value) {
  communicator.all_reduce(Buffer(&value, 1, DType::float64), ReduceOp::max);
  return value;
}

}  // namespace

std::vector<ProfiledLayer> read_profiled_layers(const std::string& path) {
  std::ifstream file(path);
  try {
    std::vector<ProfiledLayer> layers;
    const auto profile = nlohmann::json::parse(file);
    for (const nlohmann::json& layer : profile.at("layers")) {
      layers.push_back({.forward = 1e-3 * layer.at("forward_ms").get<double>(),
                        .backward = 1e-3 * layer.at("backward_ms").get<double>(),
                        .sums = layer.value("tensor_sums", std::uint64_t{0})});
    }
    if (layers.empty()) throw std::runtime_error("it has no layers");
    return layers;
  } catch (const std::exception& error) {
    throw std::runtime_error("cannot read a profile from " + path + ": " + error.what());
  }
}

TensorReplayResult replay_tensor(const std::vector<ProfiledLayer>& layers, Communicator& communicator,
                                 const TensorReplayOptions& options) {
  DividedStep divided(layers, communicator, options.sequence);
  divided.run(false);
  std::vector<double> steps, alone, communication;
  std::uint64_t sent = 0;
  for (int step = 0; step < options.steps; ++step) {
    const std::uint64_t before = communicator.counters().bytes_sent;
    const double took = divided.run(true);
    sent = communicator.counters().bytes_sent - before;
    steps.push_back(most_of_all(communicator, took));
    communication.push_back(most_of_all(communicator, divided.run(false)));
    alone.push_back(most_of_all(communicator, run_alone(layers)));
  }
  return {.step = median(steps),
          .step_mean = mean(steps),
          .alone_mean = mean(alone),
          .communication = mean(communication),
          .sent_bytes = most_of_all(communicator, static_cast<double>(sent))};
}

}  // namespace kolo::bench
