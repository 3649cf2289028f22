// all_reduce / k_nomial: sums travel up a k-nomial tree to rank 0, then the result travels down it.
#include "algorithms/compose.hpp"
#include "algorithms/formula.hpp"
#include "algorithms/k_nomial_tree.hpp"
#include "algorithms/registered.hpp"

namespace kolo::algorithms {

const Algorithm all_reduce_k_nomial = {
    .collective = schedule::Collective::all_reduce,
    .name = "k_nomial",
    .purpose = "Sums travel up a k-nomial tree to rank 0, then the result travels down it",
    .use = "Small data where a message takes long and several can be under way at once",
    .source = kKNomialSource,
    .rank_ordered = true,
    .parameters = kRadixParameters,
    .tried = kTriedRadices,
    .closed_form = {.steps = "2 ((R-1) L + floor((N-1) / R^L)), L = floor(log_R (N-1))",
                    .sent = "(half as many as steps) n",
                    .cost = [](std::uint64_t n, const ScheduleSpec& spec) -> StepsAndBytes {
                      const std::uint64_t children = k_nomial_children(n, radix_of(spec));
                      return {2 * children, children};
                    }},
    .objection = radix_objection,
    .generate = [](const ScheduleSpec& spec) { return reduce_then_broadcast(spec, "k_nomial"); },
};

}  // namespace kolo::algorithms
