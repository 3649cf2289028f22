// all_reduce / recursive_doubling: partners exchange all they have, at distances 1, 2, 4, ...; ranks beyond a
// power of two join a neighbour.
#include <bit>
#include <utility>

#include "algorithms/formula.hpp"
#include "algorithms/registered.hpp"
#include "algorithms/survivors.hpp"
#include "schedule/builder.hpp"

namespace kolo::algorithms {
namespace {

schedule::Schedule generate_all_reduce_recursive_doubling(const ScheduleSpec& spec) {
  const Survivors survivors(spec);
  const Group& group = survivors.group();
  // Incoming data must not land in memory that is being sent, not even combined.
  const bool exchanges = survivors.survives() && group.size() > 1;
  schedule::ScheduleBuilder builder(spec.collective, spec.rank, spec.size, spec.root, 1, exchanges ? 1 : 0);
  if (spec.size == 1) builder.copy(schedule::output(0), schedule::input(0));
  schedule::ChunkRange held{survivors.fold_in(builder, 1), 0, 1};
  for (int distance = 1; survivors.survives() && distance < group.size(); distance *= 2) {
    const schedule::ChunkRange incoming = schedule::scratch(0, schedule::input(0));
    const int partner = group.place() ^ distance;
    builder.send(group.at(partner), held);
    builder.recv(group.at(partner), incoming);
    // Both sides combine in the same order, or their bits would differ.
    const bool is_lower = group.place() < partner;
    builder.reduce(schedule::output(0), is_lower ? held : incoming, is_lower ? incoming : held,
                   distance * 2 == group.size());
    held = schedule::output(0);
  }
  survivors.tell(builder, 1);
  return std::move(builder).finish();
}

}  // namespace

const Algorithm all_reduce_recursive_doubling = {
    .collective = schedule::Collective::all_reduce,
    .name = "recursive_doubling",
    .purpose =
        "The butterfly: partners exchange all they have and combine in rank order, at distances 1, 2, 4, ...",
    .use = "Small data: the fewest rounds; any operation",
    .source =
        "R. Thakur, R. Rabenseifner, W. Gropp: Optimization of collective communication operations in MPICH, "
        "IJHPCA 19 (2005), allreduce, recursive doubling",
    .rank_ordered = true,
    .closed_form = {.steps = "log2 P (P: the largest power of two <= N); 2 more where N > P",
                    .sent = "log2 P n; n more where N > P",
                    .cost = [](std::uint64_t n, const ScheduleSpec&) -> StepsAndBytes {
                      const std::uint64_t surplus = std::has_single_bit(n) ? 0 : 1;
                      return {floor_log2(n) + 2 * surplus, floor_log2(n) + surplus};
                    }},
    .generate = generate_all_reduce_recursive_doubling,
};

}  // namespace kolo::algorithms
