// all_reduce / bidirectional_ring: the ring in both directions at once, half way round each.
#include <utility>

#include "algorithms/formula.hpp"
#include "algorithms/pairs.hpp"
#include "algorithms/registered.hpp"
#include "algorithms/ring.hpp"
#include "schedule/builder.hpp"

namespace kolo::algorithms {
namespace {

schedule::Schedule generate_all_reduce_bidirectional_ring(const ScheduleSpec& spec) {
  schedule::ScheduleBuilder builder(spec.collective, spec.rank, spec.size, spec.root, part_of(spec.size));
  if (spec.size == 1) builder.copy(schedule::output(0), schedule::input(0));
  const Group ring = ring_order(spec);
  bidirectional_ring_reduce_scatter(builder, ring, input_of,
                                    [](int rank, std::uint32_t) { return output_of(rank); });
  bidirectional_ring_all_gather(builder, ring, output_of(spec.rank), output_of);
  return std::move(builder).finish();
}

}  // namespace

const Algorithm all_reduce_bidirectional_ring = {
    .collective = schedule::Collective::all_reduce,
    .name = "bidirectional_ring",
    .purpose = "The ring in both directions at once: what a rank needs comes from both sides, half way each",
    .use = "Large data where a rank can use its links to both neighbours at once: half the ring's rounds",
    .source = kBidirectionalRingSource,
    .parameters = kRingParameters,
    .closed_form = kPartEachStepTwice,
    .objection = ring_objection,
    .generate = generate_all_reduce_bidirectional_ring,
};

}  // namespace kolo::algorithms
