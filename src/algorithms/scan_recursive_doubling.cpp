// scan / recursive_doubling: each rank passes what it has on, over distances 1, 2, 4, ...
#include <utility>

#include "algorithms/formula.hpp"
#include "algorithms/registered.hpp"
#include "schedule/builder.hpp"

namespace kolo::algorithms {
namespace {

schedule::Schedule generate_scan_recursive_doubling(const ScheduleSpec& spec) {
  const bool receives = spec.rank > 0;
  schedule::ScheduleBuilder builder(spec.collective, spec.rank, spec.size, spec.root, 1, receives ? 1 : 0);
  if (!receives) builder.copy(schedule::output(0), schedule::input(0));
  // Of the ranks after rank - distance, up to this one.
  schedule::ChunkRange held = schedule::input(0);
  for (int distance = 1; distance < spec.size; distance *= 2) {
    if (spec.rank + distance < spec.size) builder.send(spec.rank + distance, held);
    if (spec.rank < distance) continue;
    // Beside what is being sent: a chain of ranks that each wait for the next would take as many steps as
    // ranks.
    const schedule::ChunkRange incoming = schedule::scratch(0, schedule::input(0));
    builder.recv(spec.rank - distance, incoming);
    const bool holds_all = spec.rank == spec.size - 1 && 2 * distance >= spec.size;
    builder.reduce(schedule::output(0), incoming, held, holds_all);
    held = schedule::output(0);
  }
  return std::move(builder).finish();
}

}  // namespace

const Algorithm scan_recursive_doubling = {
    .collective = schedule::Collective::scan,
    .name = "recursive_doubling",
    .purpose = "Each rank passes what it has on, over distances 1, 2, 4, ..., and combines in rank order",
    .use = "Any data; any operation",
    .source = "W. D. Hillis, G. L. Steele: Data parallel algorithms, CACM 29 (1986), section on partial sums",
    .rank_ordered = true,
    .closed_form = {.steps = "ceil(log2 N)",
                    .sent = "ceil(log2 N) n",
                    .cost = [](std::uint64_t n, const ScheduleSpec&) -> StepsAndBytes {
                      const std::uint64_t rounds = ceil_log2(n);
                      return {rounds, rounds};
                    }},
    .generate = generate_scan_recursive_doubling,
};

}  // namespace kolo::algorithms
