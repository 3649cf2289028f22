// broadcast / k_nomial: a tree in which a rank has radix-1 children at each level.
#include "algorithms/formula.hpp"
#include "algorithms/k_nomial_tree.hpp"
#include "algorithms/registered.hpp"

namespace kolo::algorithms {

const Algorithm broadcast_k_nomial = {
    .collective = schedule::Collective::broadcast,
    .name = "k_nomial",
    .purpose = "A tree in which a rank has radix-1 children at each level",
    .use = "Small data where a message takes long and several can be under way at once",
    .source = kKNomialSource,
    .parameters = kRadixParameters,
    .tried = kTriedRadices,
    .closed_form = {.steps = kKNomialSteps,
                    .sent = "(as many as steps) n",
                    .cost = [](std::uint64_t n, const ScheduleSpec& spec) -> StepsAndBytes {
                      const std::uint64_t children = k_nomial_children(n, radix_of(spec));
                      return {children, children};
                    }},
    .objection = radix_objection,
    .generate = [](const ScheduleSpec& spec) { return k_nomial_broadcast(spec, radix_of(spec)); },
};

}  // namespace kolo::algorithms
