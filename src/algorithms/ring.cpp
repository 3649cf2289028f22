#include "algorithms/ring.hpp"

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

#include "algorithms/pairs.hpp"

namespace kolo::algorithms {

Group ring_order(const ScheduleSpec& spec) {
  std::vector<int> order = spec.arguments.numbers("order");
  if (order.empty()) {
    order.resize(static_cast<std::size_t>(spec.size));
    std::iota(order.begin(), order.end(), 0);
    if (!spec.hosts.empty()) {
      std::ranges::stable_sort(order, {},
                               [&](int rank) { return spec.hosts[static_cast<std::size_t>(rank)]; });
    }
  }
  const auto place = static_cast<int>(std::ranges::find(order, spec.rank) - order.begin());
  return {std::move(order), place};
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

Arguments ring_in_order(const ScheduleSpec& spec, const std::vector<int>& ring) {
  Arguments arguments = spec.arguments;
  if (arguments.numbers("order").empty()) arguments.set("order", text_of(ring));
  return arguments;
}

schedule::ChunkRange input_of(int rank) {
  return schedule::input(part_of(rank));
}

schedule::ChunkRange output_of(int rank) {
  return schedule::output(part_of(rank));
}

schedule::ScheduleBuilder::StepIds ring_reduce_scatter(schedule::ScheduleBuilder& builder, const Group& ring,
                                                       const BlockOf& own, const SumOf& sum, bool completes,
                                                       schedule::ScheduleBuilder::After first) {
  schedule::ScheduleBuilder::StepIds last;
  schedule::ChunkRange outgoing = own(ring.neighbour(-1));
  for (int round = 0; round + 1 < ring.size(); ++round) {
    last = {builder.send(ring.neighbour(1), outgoing, first)};
    const int owner = ring.neighbour(-round - 2);
    outgoing = sum(owner, static_cast<std::uint32_t>(round));
    const bool is_last = round + 2 == ring.size();
    builder.recv_reduce(ring.neighbour(-1), outgoing, own(owner), completes && is_last);
  }
  return last;
}

schedule::ScheduleBuilder::StepIds ring_all_gather(schedule::ScheduleBuilder& builder, const Group& ring,
                                                   schedule::ChunkRange own, const BlockOf& to,
                                                   schedule::ScheduleBuilder::After first) {
  schedule::ScheduleBuilder::StepIds last;
  schedule::ChunkRange outgoing = own;
  for (int round = 0; round + 1 < ring.size(); ++round) {
    last = {builder.send(ring.neighbour(1), outgoing, first)};
    outgoing = to(ring.neighbour(-round - 1));
    builder.recv(ring.neighbour(-1), outgoing);
  }
  return last;
}

}  // namespace kolo::algorithms
