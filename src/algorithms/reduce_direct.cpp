// reduce / direct: the root receives from all ranks and combines in rank order.
#include <utility>

#include "algorithms/fold.hpp"
#include "algorithms/formula.hpp"
#include "algorithms/registered.hpp"
#include "schedule/builder.hpp"

namespace kolo::algorithms {
namespace {

schedule::Schedule generate_reduce_direct(const ScheduleSpec& spec) {
  schedule::ScheduleBuilder builder(spec.collective, spec.rank, spec.size, spec.root, 1,
                                    spec.rank == spec.root ? fold_scratch(spec.rank) : 0);
  if (spec.rank == spec.root) {
    fold_in_rank_order(builder, spec, schedule::output(0), schedule::input(0));
  } else {
    builder.send(spec.root, schedule::input(0));
  }
  return std::move(builder).finish();
}

}  // namespace

const Algorithm reduce_direct = {
    .collective = schedule::Collective::reduce,
    .name = "direct",
    .purpose = "The root receives from each rank and combines in rank order",
    .use = "Two or three ranks; operations that are not commutative",
    .source = "Folklore; linear reduction",
    .rank_ordered = true,
    .closed_form = {.steps = "N-1",
                    .sent = "n",
                    .cost = [](std::uint64_t n, const ScheduleSpec&) -> StepsAndBytes {
                      return {n - 1, n > 1 ? 1u : 0u};
                    }},
    .generate = generate_reduce_direct,
};

}  // namespace kolo::algorithms
