// reduce / k_nomial: a tree towards the root in which a rank has radix-1 children at each level.
#include "algorithms/formula.hpp"
#include "algorithms/k_nomial_tree.hpp"
#include "algorithms/registered.hpp"

namespace kolo::algorithms {

const Algorithm reduce_k_nomial = {
    .collective = schedule::Collective::reduce,
    .name = "k_nomial",
    .purpose = "A tree towards the root in which a rank has radix-1 children at each level",
    .use = "Small data where a message takes long and several arrive at once",
    .source = kKNomialSource,
    .parameters = kRadixParameters,
    .tried = kTriedRadices,
    .closed_form = {.steps = kKNomialSteps,
                    .sent = "n",
                    .cost = [](std::uint64_t n, const ScheduleSpec& spec) -> StepsAndBytes {
                      return {k_nomial_children(n, radix_of(spec)), n > 1 ? 1u : 0u};
                    }},
    .objection = radix_objection,
    .generate = [](const ScheduleSpec& spec) { return k_nomial_reduce(spec, radix_of(spec)); },
};

}  // namespace kolo::algorithms
