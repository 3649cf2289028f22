#include "algorithms/butterfly.hpp"

#include <algorithm>
#include <bit>
#include <functional>
#include <utility>

#include "algorithms/fold.hpp"

namespace kolo::algorithms {
namespace {

/// The prime factors of n, largest first.
std::vector<int> prime_factors(int n) {
  std::vector<int> result;
  for (int p = 2; p <= n / p; ++p) {
    for (; n % p == 0; n /= p) result.push_back(p);
  }
  if (n > 1) result.push_back(n);
  std::ranges::sort(result, std::greater());
  return result;
}

}  // namespace

std::vector<int> butterfly_degrees(const ScheduleSpec& spec) {
  std::vector<int> degrees = spec.arguments.numbers("degrees");
  return degrees.empty() ? prime_factors(spec.size) : degrees;
}

std::string butterfly_objection(const ScheduleSpec& spec) {
  int left = spec.size;
  for (const int degree : butterfly_degrees(spec))
    left = degree > 0 && left % degree == 0 ? left / degree : 0;
  if (left == 1) return {};
  return "needs degrees whose product is the number of ranks, " + std::to_string(spec.size);
}

std::uint64_t butterfly_steps(const ScheduleSpec& spec) {
  std::uint64_t steps = 0;
  for (const int degree : butterfly_degrees(spec)) steps += static_cast<std::uint64_t>(degree - 1);
  return steps;
}

std::vector<int> twos(std::uint32_t size) {
  return std::vector<int>(static_cast<std::size_t>(std::countr_zero(size)), 2);
}

schedule::ChunkRange ButterflyLayer::of(int places, schedule::BufferName buffer) const {
  const int place = (group.place() + places) % group.size();
  return {buffer, begin + static_cast<std::uint32_t>(place) * part, part};
}

std::vector<ButterflyLayer> butterfly_layers(const Group& everyone, const std::vector<int>& degrees,
                                             std::uint32_t chunks, Near near) {
  std::vector<ButterflyLayer> layers;
  std::uint32_t begin = 0;
  int done = 1;  // product of the degrees so far
  for (const int degree : degrees) {
    const int stride = near == Near::first ? done : everyone.size() / (done * degree);
    done *= degree;
    if (degree == 1) continue;
    const int digit = everyone.place() / stride % degree;
    std::vector<int> members;
    for (int i = 0; i < degree; ++i) members.push_back(everyone.at(everyone.place() + (i - digit) * stride));
    const ButterflyLayer& layer = layers.emplace_back(
        ButterflyLayer{{std::move(members), digit}, begin, chunks / static_cast<std::uint32_t>(done)});
    begin = layer.own_begin();
  }
  return layers;
}

std::uint32_t butterfly_scratch(const std::vector<ButterflyLayer>& layers) {
  std::uint32_t slots = 0;
  for (const ButterflyLayer& layer : layers) {
    if (layer.group.size() > 2) slots = std::max(slots, received_scratch(layer.group.size(), layer.part));
  }
  return slots;
}

void butterfly_reduce_scatter(schedule::ScheduleBuilder& builder, Turns& turns,
                              const std::vector<ButterflyLayer>& layers, schedule::BufferName held,
                              bool completes) {
  for (const ButterflyLayer& layer : layers) {
    const Group& group = layer.group;
    for (int k = 1; k < group.size(); ++k) turns.send(group.neighbour(k), layer.of(k, held));
    const schedule::ChunkRange sum = layer.own(schedule::BufferName::output);
    const schedule::ChunkRange own = layer.own(held);
    const bool is_whole = completes && &layer == &layers.back();
    if (group.size() > 2) {
      fold_received(builder, group, sum, own, is_whole);
    } else if (group.place() == 0) {
      builder.recv_reduce(group.at(1), sum, own, is_whole);
    } else {
      builder.recv_reduce_incoming_first(group.at(0), sum, own, is_whole);
    }
    held = schedule::BufferName::output;
  }
}

void butterfly_all_gather(schedule::ScheduleBuilder& builder, Turns& turns,
                          const std::vector<ButterflyLayer>& layers) {
  for (auto layer = layers.rbegin(); layer != layers.rend(); ++layer) {
    const Group& group = layer->group;
    for (int k = 1; k < group.size(); ++k) {
      turns.send(group.neighbour(k), layer->own(schedule::BufferName::output));
      builder.recv(group.neighbour(-k), layer->of(group.size() - k, schedule::BufferName::output));
    }
  }
}

}  // namespace kolo::algorithms
