// all_reduce / ring: reduce-scatter and all-gather around a ring; sends 2(N-1)/N of the data, the least
// possible.
#include <utility>

#include "algorithms/formula.hpp"
#include "algorithms/pairs.hpp"
#include "algorithms/registered.hpp"
#include "algorithms/ring.hpp"
#include "schedule/builder.hpp"

namespace kolo::algorithms {
namespace {

schedule::Schedule generate_all_reduce_ring(const ScheduleSpec& spec) {
  schedule::ScheduleBuilder builder(spec.collective, spec.rank, spec.size, spec.root, part_of(spec.size));
  if (spec.size == 1) builder.copy(schedule::output(0), schedule::input(0));
  const Group ring = ring_order(spec);
  // Partial sums use the output, which holds no needed data yet: no copy of the input, no scratch.
  ring_reduce_scatter(builder, ring, input_of, [](int rank, std::uint32_t) { return output_of(rank); });
  ring_all_gather(builder, ring, output_of(spec.rank), output_of);
  return std::move(builder).finish();
}

}  // namespace

const Algorithm all_reduce_ring = {
    .collective = schedule::Collective::all_reduce,
    .name = "ring",
    .purpose = "Reduce-scatter and all-gather around a ring: sends 2(N-1)/N of the data, the least there is",
    .use = "Large data on any network: no rank sends less, and only to its neighbour",
    .source = kRingSource,
    .parameters = kRingParameters,
    .in_order = ring_in_order,
    .closed_form = kPartEachStepTwice,
    .objection = ring_objection,
    .generate = generate_all_reduce_ring,
};

}  // namespace kolo::algorithms
