// all_reduce / circulant: reduce-scatter and all-gather with halving skips around the ranks, for any N.
#include <utility>

#include "algorithms/circulant.hpp"
#include "algorithms/formula.hpp"
#include "algorithms/pairs.hpp"
#include "algorithms/registered.hpp"
#include "schedule/builder.hpp"

namespace kolo::algorithms {
namespace {

schedule::Schedule generate_all_reduce_circulant(const ScheduleSpec& spec) {
  schedule::ScheduleBuilder builder(spec.collective, spec.rank, spec.size, spec.root, part_of(spec.size));
  Circulant circulant(builder, spec, schedule::BufferName::input);
  circulant.load();
  circulant.reduce_scatter(circulant.slots(0, 1));
  circulant.all_gather();
  circulant.store();
  return std::move(builder).finish();
}

}  // namespace

const Algorithm all_reduce_circulant = {
    .collective = schedule::Collective::all_reduce,
    .name = "circulant",
    .purpose =
        "Halving, then doubling skips around the ranks: as few rounds and bytes for any N as for powers of "
        "two",
    .use = "Medium-sized data, a number of ranks that is no power of two",
    .source = kCirculantSource,
    .closed_form = {.steps = "2 ceil(log2 N)",
                    .sent = "2(N-1)/N n",
                    .cost = [](std::uint64_t n, const ScheduleSpec&) -> StepsAndBytes {
                      return {2 * ceil_log2(n), 2 * (n - 1)};
                    }},
    .generate = generate_all_reduce_circulant,
};

}  // namespace kolo::algorithms
