// reduce_scatter / bidirectional_ring: partial sums come to their owner from both sides, half way round each.
#include <utility>

#include "algorithms/formula.hpp"
#include "algorithms/pairs.hpp"
#include "algorithms/registered.hpp"
#include "algorithms/ring.hpp"
#include "schedule/builder.hpp"

namespace kolo::algorithms {
namespace {

/// Slots of scratch for partial sums: in each direction, one arrives while the one before leaves.
constexpr std::uint32_t kTwoWayTravellers = 4;

schedule::Schedule generate_reduce_scatter_bidirectional_ring(const ScheduleSpec& spec) {
  schedule::ScheduleBuilder builder(spec.collective, spec.rank, spec.size, spec.root, part_of(spec.size),
                                    spec.size > 3 ? kTwoWayTravellers : 0);
  if (spec.size == 1) builder.copy(schedule::output(0), schedule::input(0));
  const auto sum = [&](int rank, std::uint32_t count) {
    return rank == spec.rank ? schedule::output(0)
                             : schedule::scratch(count % kTwoWayTravellers, input_of(rank));
  };
  bidirectional_ring_reduce_scatter(builder, ring_order(spec), input_of, sum);
  return std::move(builder).finish();
}

}  // namespace

const Algorithm reduce_scatter_bidirectional_ring = {
    .collective = schedule::Collective::reduce_scatter,
    .name = "bidirectional_ring",
    .purpose = "Partial sums come to their owner from both sides of the ring, half way round each",
    .use = "Large parts where a rank can use its links to both neighbours at once: half the ring's rounds",
    .source = kBidirectionalRingSource,
    .parameters = kRingParameters,
    .closed_form = kPartEachStep,
    .objection = ring_objection,
    .generate = generate_reduce_scatter_bidirectional_ring,
};

}  // namespace kolo::algorithms
