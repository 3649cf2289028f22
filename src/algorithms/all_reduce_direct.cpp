// all_reduce / direct: each rank combines its part directly from all ranks and sends it directly to all
// ranks.
#include <utility>

#include "algorithms/direct.hpp"
#include "algorithms/fold.hpp"
#include "algorithms/formula.hpp"
#include "algorithms/pairs.hpp"
#include "algorithms/registered.hpp"
#include "schedule/builder.hpp"

namespace kolo::algorithms {
namespace {

schedule::Schedule generate_all_reduce_direct(const ScheduleSpec& spec) {
  schedule::ScheduleBuilder builder(spec.collective, spec.rank, spec.size, spec.root, part_of(spec.size),
                                    received_scratch(spec.size));
  const schedule::ChunkRange own = schedule::output(part_of(spec.rank));
  Turns turns(builder, spec);
  direct_reduce_scatter(builder, turns, spec, own);
  direct_all_gather(builder, turns, spec, own);
  return std::move(builder).finish();
}

}  // namespace

const Algorithm all_reduce_direct = {
    .collective = schedule::Collective::all_reduce,
    .name = "direct",
    .purpose = "Each rank combines its part straight from all ranks and sends the result straight to them",
    .use = "Where any two ranks have a good link: as few bytes as the ring in two rounds; any operation",
    .source =
        "R. Thakur, R. Rabenseifner, W. Gropp: Optimization of collective communication operations in MPICH, "
        "IJHPCA 19 (2005), pairwise exchange",
    .rank_ordered = true,
    .in_shared_memory =
        schedule::SharedMemoryForm{schedule::SharedMemoryForm::Kind::reduce_for_all, schedule::Held::all},
    .closed_form = kPartEachStepTwice,
    .generate = generate_all_reduce_direct,
};

}  // namespace kolo::algorithms
