#include "algorithms/ring.hpp"

#include <algorithm>
#include <numeric>

#include "algorithms/pairs.hpp"

namespace kolo {

RingOrder::RingOrder(const ScheduleSpec& spec) : order_(spec.arguments.numbers("order")) {
  if (order_.empty()) {
    order_.resize(static_cast<std::size_t>(spec.size));
    std::iota(order_.begin(), order_.end(), 0);
    if (!spec.hosts.empty()) {
      std::ranges::stable_sort(order_, {},
                               [&](int rank) { return spec.hosts[static_cast<std::size_t>(rank)]; });
    }
  }
  place_ = static_cast<int>(std::ranges::find(order_, spec.rank) - order_.begin());
}

int RingOrder::neighbour(int places) const {
  const auto size = static_cast<int>(order_.size());
  return order_[static_cast<std::size_t>((place_ + places + size) % size)];
}

std::string ring_objection(const ScheduleSpec& spec) {
  std::vector<int> order = spec.arguments.numbers("order");
  if (order.empty()) return {};
  std::ranges::sort(order);
  bool each_once = order.size() == static_cast<std::size_t>(spec.size);
  for (int rank = 0; each_once && rank < spec.size; ++rank) {
    each_once = order[static_cast<std::size_t>(rank)] == rank;
  }
  if (each_once) return {};
  return "needs an order that names each of the ranks 0 to " + std::to_string(spec.size - 1) + " once";
}

void ring_reduce_scatter(ScheduleBuilder& builder, const ScheduleSpec& spec, SumPlace place) {
  const RingOrder ring(spec);
  ChunkRange outgoing = input(part_of(ring.neighbour(-1)));
  for (int round = 0; round + 1 < spec.size; ++round) {
    builder.send(ring.neighbour(1), outgoing);
    const std::uint32_t chunk = part_of(ring.neighbour(-round - 2));
    const ChunkRange sum = place(spec, chunk, static_cast<std::uint32_t>(round));
    builder.recv_reduce(ring.neighbour(-1), sum, input(chunk), round + 2 == spec.size);
    outgoing = sum;
  }
}

void ring_all_gather(ScheduleBuilder& builder, const ScheduleSpec& spec, ChunkRange own) {
  const RingOrder ring(spec);
  ChunkRange outgoing = own;
  for (int round = 0; round + 1 < spec.size; ++round) {
    builder.send(ring.neighbour(1), outgoing);
    outgoing = output(part_of(ring.neighbour(-round - 1)));
    builder.recv(ring.neighbour(-1), outgoing);
  }
}

}  // namespace kolo
