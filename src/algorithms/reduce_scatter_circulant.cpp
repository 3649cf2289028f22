// reduce_scatter / circulant: ceil(log2 N) rounds with halving skips around the ranks, for any N.
#include <utility>

#include "algorithms/circulant.hpp"
#include "algorithms/formula.hpp"
#include "algorithms/pairs.hpp"
#include "algorithms/registered.hpp"
#include "schedule/builder.hpp"

namespace kolo::algorithms {
namespace {

schedule::Schedule generate_reduce_scatter_circulant(const ScheduleSpec& spec) {
  schedule::ScheduleBuilder builder(spec.collective, spec.rank, spec.size, spec.root, part_of(spec.size));
  Circulant circulant(builder, spec, schedule::BufferName::input);
  circulant.load();
  circulant.reduce_scatter(schedule::output(0));
  if (spec.size == 1) builder.copy(schedule::output(0), schedule::input(0));
  return std::move(builder).finish();
}

}  // namespace

const Algorithm reduce_scatter_circulant = {
    .collective = schedule::Collective::reduce_scatter,
    .name = "circulant",
    .purpose = "Halving skips around the ranks: the fewest rounds and the fewest bytes, for any N",
    .use = "Small and medium-sized parts, any number of ranks",
    .source = kCirculantSource,
    .closed_form = kDoublingParts,
    .generate = generate_reduce_scatter_circulant,
};

}  // namespace kolo::algorithms
