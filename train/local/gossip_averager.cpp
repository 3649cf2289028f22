#include "kolo/train/gossip_averager.hpp"

#include <bit>
#include <chrono>
#include <exception>
#include <string>
#include <vector>

#include "kolo/error.hpp"
#include "kolo/train/tensor.hpp"
#include "local/plan.hpp"
#include "ranks/failure.hpp"

namespace kolo {
namespace {

constexpr const char* kGossipAverager = "GossipAverager";

}  // namespace

struct GossipAverager::State {
  State(const torch::nn::Module& module, Communicator& communicator, const GossipAveragerOptions& options)
      : period(options.period),
        own(communicator.split(0)),
        model(train::agree_and_replicate(
            kGossipAverager, module, own, "the option period " + std::to_string(period),
            [this](const train::Model&) {
              if (period == 0) throw InvalidArgumentError("a period of 0 steps: it is 1 or more", {});
            })),
        tensors(train::averaged_of(model)),
        mine(flats_by_type(tensors)),
        received(flats_by_type(tensors)) {
    const auto ranks = static_cast<std::uint64_t>(own.size());
    distances = ranks > 1 ? std::bit_width(ranks - 1) : 0;
  }

  /// From this rank to the one that it sends to in the next round; 0 if it is alone.
  int distance() const {
    const std::uint64_t rounds = total.steps / period;
    return distances > 0 ? 1 << rounds % static_cast<std::uint64_t>(distances) : 0;
  }

  void average(int distance) {
    train::pack(model, tensors, mine, own);
    if (!are_finite(mine)) give_up();
    const int ranks = own.size(), to = (own.rank() + distance) % ranks,
              from = (own.rank() + ranks - distance) % ranks;
    std::vector<TensorWork> works;
    for (std::size_t i = 0; i < mine.size(); ++i) {
      works.push_back(recv_async(received[i].flat(), from, own));
      works.push_back(send_async(mine[i].flat(), to, own));
    }
    wait_all(works);
    for (std::size_t i = 0; i < mine.size(); ++i) received[i].flat().add_(mine[i].flat()).mul_(0.5);
    unpack(received, tensors);
    total.bytes += train::bytes_of(mine);
    ++total.all_reduces;
  }

  /// No other rank knows it, and most do not meet this one in this round.
  [[noreturn]] void give_up() {
    std::rethrow_exception(train::leave(
        own,
        std::string(kGossipAverager) + ": its model is not finite in step " + std::to_string(total.steps)));
  }

  std::uint64_t period;
  Communicator own;  ///< so calls on the caller's cannot come between those of a step
  train::AgreedModel model;
  train::NamedTensors tensors;
  std::vector<FlatTensors> mine;
  std::vector<FlatTensors> received;
  int distances = 0;  ///< 1, 2, 4, ...: so many below the number of ranks
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

}  // namespace kolo
