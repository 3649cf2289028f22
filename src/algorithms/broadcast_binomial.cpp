// broadcast / binomial: a binomial tree: every rank that has the data passes it on, log2(N) rounds.
#include "algorithms/formula.hpp"
#include "algorithms/k_nomial_tree.hpp"
#include "algorithms/registered.hpp"

namespace kolo::algorithms {

const Algorithm broadcast_binomial = {
    .collective = schedule::Collective::broadcast,
    .name = "binomial",
    .purpose = "A binomial tree: each rank that has the data passes it on, log2(N) rounds",
    .use = "Small data, many ranks",
    .source =
        "R. Thakur, R. Rabenseifner, W. Gropp: Optimization of collective communication operations in MPICH, "
        "IJHPCA 19 (2005), broadcast",
    .closed_form = {.steps = "ceil(log2 N)",
                    .sent = "ceil(log2 N) n",
                    .cost = [](std::uint64_t n, const ScheduleSpec&) -> StepsAndBytes {
                      return {ceil_log2(n), ceil_log2(n)};
                    }},
    .generate = [](const ScheduleSpec& spec) { return k_nomial_broadcast(spec, kBinomial); },
};

}  // namespace kolo::algorithms
