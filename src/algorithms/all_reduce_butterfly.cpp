// all_reduce / butterfly: groups of d1, d2, ... ranks share out and combine layer by layer, then the same in
// reverse.
#include <utility>

#include "algorithms/butterfly.hpp"
#include "algorithms/formula.hpp"
#include "algorithms/group.hpp"
#include "algorithms/pairs.hpp"
#include "algorithms/registered.hpp"
#include "schedule/builder.hpp"

namespace kolo::algorithms {
namespace {

schedule::Schedule generate_all_reduce_butterfly(const ScheduleSpec& spec) {
  const auto layers =
      butterfly_layers(all_ranks(spec), butterfly_degrees(spec), part_of(spec.size), Near::first);
  schedule::ScheduleBuilder builder(spec.collective, spec.rank, spec.size, spec.root, part_of(spec.size),
                                    butterfly_scratch(layers));
  if (spec.size == 1) builder.copy(schedule::output(0), schedule::input(0));
  Turns turns(builder, spec);
  butterfly_reduce_scatter(builder, turns, layers, schedule::BufferName::input);
  butterfly_all_gather(builder, turns, layers);
  return std::move(builder).finish();
}

}  // namespace

const Algorithm all_reduce_butterfly = {
    .collective = schedule::Collective::all_reduce,
    .name = "butterfly",
    .purpose =
        "Layers in which groups of d1, d2, ... ranks share out and combine in rank order, then the same back",
    .use =
        "Medium-sized data, N with small factors; any operation; with degrees, from direct (N) to halving "
        "(2-2-...)",
    .source = kButterflySource,
    .rank_ordered = true,
    .parameters = kButterflyParameters,
    .closed_form = {.steps = "2 sum of (d-1) over the degrees d",
                    .sent = "2(N-1)/N n",
                    .cost = [](std::uint64_t n, const ScheduleSpec& spec) -> StepsAndBytes {
                      return {2 * butterfly_steps(spec), 2 * (n - 1)};
                    }},
    .objection = butterfly_objection,
    .generate = generate_all_reduce_butterfly,
};

}  // namespace kolo::algorithms
