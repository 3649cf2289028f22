// reduce_scatter / direct: each rank receives its part from all ranks and combines in rank order.
#include <utility>

#include "algorithms/direct.hpp"
#include "algorithms/fold.hpp"
#include "algorithms/formula.hpp"
#include "algorithms/pairs.hpp"
#include "algorithms/registered.hpp"
#include "schedule/builder.hpp"

namespace kolo::algorithms {
namespace {

schedule::Schedule generate_reduce_scatter_direct(const ScheduleSpec& spec) {
  schedule::ScheduleBuilder builder(spec.collective, spec.rank, spec.size, spec.root, part_of(spec.size),
                                    received_scratch(spec.size));
  Turns turns(builder, spec);
  direct_reduce_scatter(builder, turns, spec, schedule::output(0));
  return std::move(builder).finish();
}

}  // namespace

const Algorithm reduce_scatter_direct = {
    .collective = schedule::Collective::reduce_scatter,
    .name = "direct",
    .purpose = "Each rank receives its part from all ranks and combines in rank order",
    .use = "Small parts, few ranks; operations that are not commutative",
    .source =
        "R. Thakur, R. Rabenseifner, W. Gropp: Optimization of collective communication operations in MPICH, "
        "IJHPCA 19 (2005), pairwise exchange",
    .rank_ordered = true,
    .in_shared_memory =
        schedule::SharedMemoryForm{schedule::SharedMemoryForm::Kind::reduce_own, schedule::Held::all},
    .closed_form = kPartEachStep,
    .generate = generate_reduce_scatter_direct,
};

}  // namespace kolo::algorithms
