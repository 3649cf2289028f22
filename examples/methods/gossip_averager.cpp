#include "methods/gossip_averager.hpp"

#include <bit>
#include <chrono>
#include <string>
#include <vector>

#include "kolo/error.hpp"
#include "kolo/train/averages.hpp"
#include "kolo/train/distributed_data_parallel.hpp"
#include "kolo/train/tensor.hpp"

namespace kolo::methods {

struct GossipAverager::State {
  State(const torch::nn::Module& module, Communicator& communicator, const GossipAveragerOptions& options)
      : period(options.period), own(communicator.split(0)) {
    std::string lines = "the option period " + std::to_string(period) + '\n';
    agree(own, "GossipAverager", lines, [&] {
      if (period == 0) throw InvalidArgumentError("a period of 0 steps: it is 1 or more", {});
      for (const PlacedParameter& parameter : placed_parameters(module, DistributedDataParallelOptions())) {
        if (parameter.is_trained) tensors.push_back({parameter.name, parameter.tensor});
      }
      for (const auto& item : module.named_parameters()) {
        if (item.value().requires_grad()) continue;
        frozen.push_back({item.key(), item.value()});
        lines += '\'' + item.key() + "' is frozen\n";
      }
      for (const auto& item : module.named_buffers()) {
        if (item.value().is_floating_point()) tensors.push_back({item.key(), item.value()});
      }
      mine = flats_by_type(tensors);
      received = flats_by_type(tensors);
    });
    broadcast(module, own);
    const auto ranks = static_cast<std::uint64_t>(own.size());
    distances = ranks > 1 ? std::bit_width(ranks - 1) : 0;
    works.reserve(2 * mine.size());
  }

  /// From this rank to the one that it sends to in the next round; 0 if it is alone.
  int distance() const {
    const std::uint64_t rounds = total.steps / period;
    return distances > 0 ? 1 << rounds % static_cast<std::uint64_t>(distances) : 0;
  }

  void average(int distance) {
    take_own();
    const int ranks = own.size(), to = (own.rank() + distance) % ranks,
              from = (own.rank() + ranks - distance) % ranks;
    for (std::size_t i = 0; i < mine.size(); ++i) {
      works.push_back(recv_async(received[i].flat(), from, own));
      works.push_back(send_async(mine[i].flat(), to, own));
      total.bytes += mine[i].bytes();
    }
    wait_all(works);
    for (std::size_t i = 0; i < mine.size(); ++i) received[i].flat().add_(mine[i].flat()).mul_(0.5);
    unpack(received, tensors);
    ++total.all_reduces;
  }

  /// No other rank knows what is wrong with this one, and most do not meet it in this round.
  void take_own() {
    const std::string problem = problem_of([&] {
      for (const NamedTensor& parameter : frozen) {
        if (!parameter.tensor.requires_grad()) continue;
        throw InvalidArgumentError(
            "parameter '" + parameter.name + "' was frozen at first and is not now: make a new object", {});
      }
      kolo::pack(tensors, mine);
      if (are_finite(mine)) return;
      throw InvalidArgumentError(
          "GossipAverager: its model is not finite in step " + std::to_string(total.steps), {});
    });
    if (problem.empty()) return;
    own.abort(problem);
    throw AbortedError("rank " + std::to_string(own.rank()) + " aborted: " + problem, {.peer = own.rank()});
  }

  std::uint64_t period;
  Communicator own;  ///< so calls on the caller's cannot come between those of a step
  std::vector<NamedTensor> tensors, frozen;
  std::vector<FlatTensors> mine, received;
  int distances = 0;  ///< 1, 2, 4, ...: so many below the number of ranks
  std::vector<TensorWork> works;
  CommunicationStatistics total;
};

GossipAverager::GossipAverager(const torch::nn::Module& module, Communicator communicator,
                               const GossipAveragerOptions& options) {
  if (!communicator.valid()) throw InvalidArgumentError("the communicator is not valid", {});
  state_ = std::make_unique<State>(module, communicator, options);
}

GossipAverager::~GossipAverager() = default;

bool GossipAverager::step() {
  State& state = *state_;
  const int distance = state.distance();
  if (++state.total.steps % state.period != 0 || distance == 0) return false;
  const auto begin = std::chrono::steady_clock::now();
  state.average(distance);
  state.total.exposed += std::chrono::steady_clock::now() - begin;
  return true;
}

int GossipAverager::next_peer() const noexcept {
  return (state_->own.rank() + state_->distance()) % state_->own.size();
}

const CommunicationStatistics& GossipAverager::total() const noexcept {
  return state_->total;
}

void GossipAverager::save(torch::serialize::OutputArchive& archive) const {
  archive.write("steps", c10::IValue(static_cast<std::int64_t>(state_->total.steps)));
}

void GossipAverager::load(torch::serialize::InputArchive& archive) {
  load_or_refuse("GossipAverager", [&] {
    c10::IValue steps;
    archive.read("steps", steps);
    state_->total.steps = static_cast<std::uint64_t>(steps.toInt());
  });
}

}  // namespace kolo::methods
