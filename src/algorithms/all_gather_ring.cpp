// all_gather / ring: every part travels once around the ring; each rank talks to its neighbours only.
#include <utility>

#include "algorithms/formula.hpp"
#include "algorithms/pairs.hpp"
#include "algorithms/registered.hpp"
#include "algorithms/ring.hpp"
#include "schedule/builder.hpp"

namespace kolo::algorithms {
namespace {

schedule::Schedule generate_all_gather_ring(const ScheduleSpec& spec) {
  schedule::ScheduleBuilder builder(spec.collective, spec.rank, spec.size, spec.root, part_of(spec.size));
  ring_all_gather(builder, ring_order(spec), schedule::input(0), output_of);
  builder.copy(schedule::output(part_of(spec.rank)), schedule::input(0));
  return std::move(builder).finish();
}

}  // namespace

const Algorithm all_gather_ring = {
    .collective = schedule::Collective::all_gather,
    .name = "ring",
    .purpose = "Every part travels once around the ring; each rank talks to its neighbours only",
    .use = "Large parts: neighbours only, every link busy all the time",
    .source = kRingSource,
    .parameters = kRingParameters,
    .in_order = ring_in_order,
    .closed_form = kPartEachStep,
    .objection = ring_objection,
    .generate = generate_all_gather_ring,
};

}  // namespace kolo::algorithms
