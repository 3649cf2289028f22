#include <array>

#include "algorithms/ring.hpp"

namespace kolo::algorithms {
namespace {

/// A direction around the ring, and the number of hops that data makes in that direction.
struct Way {
  int forward;  // 1: to the next rank, -1: to the one before
  int hops;
};

/// Both directions together reach every other rank once.
std::array<Way, 2> ways(const Group& ring) {
  return {{{1, ring.size() / 2}, {-1, (ring.size() - 1) / 2}}};
}

}  // namespace

void bidirectional_ring_reduce_scatter(schedule::ScheduleBuilder& builder, const Group& ring,
                                       const BlockOf& own, const SumOf& sum) {
  std::array<schedule::ChunkRange, 2> outgoing;
  std::uint32_t received = 0;
  int arrived = 0;  // sums of this rank's own block
  schedule::ChunkRange whole = own(ring.neighbour(0));
  for (int round = 0; round < ways(ring)[0].hops; ++round) {
    for (std::size_t i = 0; i < 2; ++i, ++received) {
      const auto [forward, hops] = ways(ring)[i];
      if (round >= hops) continue;
      if (round == 0) outgoing[i] = own(ring.neighbour(forward * hops));
      builder.send(ring.neighbour(forward), outgoing[i]);
      const int left = hops - round - 1;  // hops that the incoming sum still has to make
      const int owner = ring.neighbour(forward * left);
      outgoing[i] = sum(owner, received);
      if (left > 0) {
        builder.recv_reduce(ring.neighbour(-forward), outgoing[i], own(owner), false);
        continue;
      }
      const int others = ring.size() > 2 ? 2 : 1;
      builder.recv_reduce(ring.neighbour(-forward), outgoing[i], whole, ++arrived == others);
      whole = outgoing[i];
    }
  }
}

void bidirectional_ring_all_gather(schedule::ScheduleBuilder& builder, const Group& ring,
                                   schedule::ChunkRange own, const BlockOf& to) {
  std::array<schedule::ChunkRange, 2> outgoing = {own, own};
  for (int round = 0; round < ways(ring)[0].hops; ++round) {
    for (std::size_t i = 0; i < 2; ++i) {
      const auto [forward, hops] = ways(ring)[i];
      if (round >= hops) continue;
      builder.send(ring.neighbour(forward), outgoing[i]);
      outgoing[i] = to(ring.neighbour(-forward * (round + 1)));
      builder.recv(ring.neighbour(-forward), outgoing[i]);
    }
  }
}

}  // namespace kolo::algorithms
