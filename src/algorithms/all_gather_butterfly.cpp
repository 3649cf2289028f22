// all_gather / butterfly: layers in which groups of d1, d2, ... ranks exchange; their product is N.
#include <utility>

#include "algorithms/butterfly.hpp"
#include "algorithms/group.hpp"
#include "algorithms/pairs.hpp"
#include "algorithms/registered.hpp"
#include "schedule/builder.hpp"

namespace kolo::algorithms {
namespace {

schedule::Schedule generate_all_gather_butterfly(const ScheduleSpec& spec) {
  schedule::ScheduleBuilder builder(spec.collective, spec.rank, spec.size, spec.root, part_of(spec.size));
  builder.copy(schedule::output(part_of(spec.rank)), schedule::input(0));
  Turns turns(builder, spec);
  butterfly_all_gather(
      builder, turns,
      butterfly_layers(all_ranks(spec), butterfly_degrees(spec), part_of(spec.size), Near::last));
  return std::move(builder).finish();
}

}  // namespace

const Algorithm all_gather_butterfly = {
    .collective = schedule::Collective::all_gather,
    .name = "butterfly",
    .purpose =
        "Layers of exchanges among groups of d1, d2, ... ranks: recursive doubling for any N with small "
        "factors",
    .use =
        "Small and medium-sized parts, N with small factors; with degrees, from direct (N) to doubling "
        "(2-2-...)",
    .source = kButterflySource,
    .parameters = kButterflyParameters,
    .closed_form = kButterflyHalf,
    .objection = butterfly_objection,
    .generate = generate_all_gather_butterfly,
};

}  // namespace kolo::algorithms
