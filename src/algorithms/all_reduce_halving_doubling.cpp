// all_reduce / halving_doubling: recursive halving, then recursive doubling; ranks beyond a power of two join
// a neighbour.
#include <bit>
#include <utility>

#include "algorithms/butterfly.hpp"
#include "algorithms/formula.hpp"
#include "algorithms/registered.hpp"
#include "algorithms/survivors.hpp"
#include "schedule/builder.hpp"

namespace kolo::algorithms {
namespace {

schedule::Schedule generate_all_reduce_halving_doubling(const ScheduleSpec& spec) {
  const Survivors survivors(spec);
  const auto chunks = static_cast<std::uint32_t>(survivors.group().size());
  schedule::ScheduleBuilder builder(spec.collective, spec.rank, spec.size, spec.root, chunks);
  if (spec.size == 1) builder.copy(schedule::output(0), schedule::input(0));
  const schedule::BufferName held = survivors.fold_in(builder, chunks);
  if (survivors.survives()) {
    const auto layers = butterfly_layers(survivors.group(), twos(chunks), chunks, Near::first);
    // While a rank waits for its neighbour's data to send on, sums that are complete may leave.
    Turns down(builder, spec);
    butterfly_reduce_scatter(builder, down, layers, held);
    Turns up(builder, spec);
    butterfly_all_gather(builder, up, layers);
  }
  survivors.tell(builder, chunks);
  return std::move(builder).finish();
}

}  // namespace

const Algorithm all_reduce_halving_doubling = {
    .collective = schedule::Collective::all_reduce,
    .name = "halving_doubling",
    .purpose =
        "Recursive halving, then recursive doubling, in rank order; ranks beyond a power of two join a "
        "neighbour",
    .use = "Medium-sized data, a power of two ranks; any operation",
    .source =
        "R. Rabenseifner: Optimization of collective reduction operations, ICCS 2004, recursive halving and "
        "doubling",
    .rank_ordered = true,
    .closed_form = {.steps = "2 log2 P (P: the largest power of two <= N); 2 more where N > P",
                    .sent = "2(P-1)/P n; n more where N > P",
                    .cost = [](std::uint64_t n, const ScheduleSpec&) -> StepsAndBytes {
                      const std::uint64_t p = std::bit_floor(n);
                      return {2 * floor_log2(n) + (n > p ? 2 : 0), 2 * (p - 1) + (n > p ? p : 0)};
                    }},
    .generate = generate_all_reduce_halving_doubling,
};

}  // namespace kolo::algorithms
