// reduce_scatter / ring: partial sums travel once around the ring; each rank sends (N-1)/N of the data.
#include <utility>

#include "algorithms/formula.hpp"
#include "algorithms/pairs.hpp"
#include "algorithms/registered.hpp"
#include "algorithms/ring.hpp"
#include "schedule/builder.hpp"

namespace kolo::algorithms {
namespace {

/// Slots of scratch for partial sums. One slot deadlocks: each rank would wait for the next to take the sum
/// before it can receive another. Two let a rank receive a sum while the one before is being sent.
constexpr std::uint32_t kRingTravellers = 2;

schedule::Schedule generate_reduce_scatter_ring(const ScheduleSpec& spec) {
  schedule::ScheduleBuilder builder(spec.collective, spec.rank, spec.size, spec.root, part_of(spec.size),
                                    spec.size > 2 ? kRingTravellers : 0);
  if (spec.size == 1) builder.copy(schedule::output(0), schedule::input(0));
  ring_reduce_scatter(builder, ring_order(spec), input_of, [&](int rank, std::uint32_t count) {
    return rank == spec.rank ? schedule::output(0)
                             : schedule::scratch(count % kRingTravellers, input_of(rank));
  });
  return std::move(builder).finish();
}

}  // namespace

const Algorithm reduce_scatter_ring = {
    .collective = schedule::Collective::reduce_scatter,
    .name = "ring",
    .purpose = "Partial sums travel once around the ring; each rank sends (N-1)/N of the data",
    .use = "Large parts: neighbours only, every link busy all the time",
    .source = kRingSource,
    .parameters = kRingParameters,
    .in_order = ring_in_order,
    .closed_form = kPartEachStep,
    .objection = ring_objection,
    .generate = generate_reduce_scatter_ring,
};

}  // namespace kolo::algorithms
