// reduce / binomial: a binomial tree towards the root: every rank adds up its subtree, log2(N) rounds.
#include "algorithms/formula.hpp"
#include "algorithms/k_nomial_tree.hpp"
#include "algorithms/registered.hpp"

namespace kolo::algorithms {

const Algorithm reduce_binomial = {
    .collective = schedule::Collective::reduce,
    .name = "binomial",
    .purpose = "A binomial tree towards the root: every rank adds up its subtree, log2(N) rounds",
    .use = "Small data, many ranks",
    .source =
        "R. Thakur, R. Rabenseifner, W. Gropp: Optimization of collective communication operations in MPICH, "
        "IJHPCA 19 (2005), reduce",
    .closed_form = {.steps = "ceil(log2 N)",
                    .sent = "n",
                    .cost = [](std::uint64_t n, const ScheduleSpec&) -> StepsAndBytes {
                      return {ceil_log2(n), n > 1 ? 1u : 0u};
                    }},
    .generate = [](const ScheduleSpec& spec) { return k_nomial_reduce(spec, kBinomial); },
};

}  // namespace kolo::algorithms
