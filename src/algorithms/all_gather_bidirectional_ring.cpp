// all_gather / bidirectional_ring: every part travels both ways around the ring, half way each.
#include <utility>

#include "algorithms/formula.hpp"
#include "algorithms/pairs.hpp"
#include "algorithms/registered.hpp"
#include "algorithms/ring.hpp"
#include "schedule/builder.hpp"

namespace kolo::algorithms {
namespace {

schedule::Schedule generate_all_gather_bidirectional_ring(const ScheduleSpec& spec) {
  schedule::ScheduleBuilder builder(spec.collective, spec.rank, spec.size, spec.root, part_of(spec.size));
  bidirectional_ring_all_gather(builder, ring_order(spec), schedule::input(0), output_of);
  builder.copy(output_of(spec.rank), schedule::input(0));
  return std::move(builder).finish();
}

}  // namespace

const Algorithm all_gather_bidirectional_ring = {
    .collective = schedule::Collective::all_gather,
    .name = "bidirectional_ring",
    .purpose = "Every part travels both ways around the ring, half way each",
    .use = "Large parts where a rank can use its links to both neighbours at once: half the ring's rounds",
    .source = kBidirectionalRingSource,
    .parameters = kRingParameters,
    .closed_form = kPartEachStep,
    .objection = ring_objection,
    .generate = generate_all_gather_bidirectional_ring,
};

}  // namespace kolo::algorithms
