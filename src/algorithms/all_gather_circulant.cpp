// all_gather / circulant: ceil(log2 N) rounds with doubling skips around the ranks, for any N.
#include <utility>

#include "algorithms/circulant.hpp"
#include "algorithms/formula.hpp"
#include "algorithms/pairs.hpp"
#include "algorithms/registered.hpp"
#include "schedule/builder.hpp"

namespace kolo::algorithms {
namespace {

schedule::Schedule generate_all_gather_circulant(const ScheduleSpec& spec) {
  schedule::ScheduleBuilder builder(spec.collective, spec.rank, spec.size, spec.root, part_of(spec.size));
  Circulant circulant(builder, spec, schedule::BufferName::output);
  builder.copy(circulant.slots(0, 1), schedule::input(0));
  circulant.all_gather();
  circulant.store();
  return std::move(builder).finish();
}

}  // namespace

const Algorithm all_gather_circulant = {
    .collective = schedule::Collective::all_gather,
    .name = "circulant",
    .purpose = "Doubling skips around the ranks: the fewest rounds and the fewest bytes, for any N",
    .use = "Small and medium-sized parts, any number of ranks",
    .source =
        "J. L. Traff: Optimal, non-pipelined reduce-scatter and allreduce algorithms, 2024, the second half "
        "of "
        "algorithm 2; J. Bruck et al.: Efficient algorithms for all-to-all communications in multiport "
        "message-passing systems, IEEE TPDS 8 (1997), concatenation, with other skips",
    .closed_form = kDoublingParts,
    .generate = generate_all_gather_circulant,
};

}  // namespace kolo::algorithms
