// all_reduce / binomial: sums travel up a binomial tree to rank 0, then the result travels down it.
#include "algorithms/compose.hpp"
#include "algorithms/formula.hpp"
#include "algorithms/k_nomial_tree.hpp"
#include "algorithms/registered.hpp"

namespace kolo::algorithms {

const Algorithm all_reduce_binomial = {
    .collective = schedule::Collective::all_reduce,
    .name = "binomial",
    .purpose = "Sums travel up a binomial tree to rank 0, then the result travels down it",
    .use = "Small data on a network that few messages should cross: 2(N-1) in all",
    .source =
        "R. Thakur, R. Rabenseifner, W. Gropp: Optimization of collective communication operations in MPICH, "
        "IJHPCA 19 (2005), all-reduce, the algorithm before",
    .rank_ordered = true,
    .closed_form = {.steps = "2 ceil(log2 N)",
                    .sent = "ceil(log2 N) n",
                    .cost = [](std::uint64_t n, const ScheduleSpec&) -> StepsAndBytes {
                      const std::uint64_t children = k_nomial_children(n, kBinomial);
                      return {2 * children, children};
                    }},
    .generate = [](const ScheduleSpec& spec) { return reduce_then_broadcast(spec, "binomial"); },
};

}  // namespace kolo::algorithms
