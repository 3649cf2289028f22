// barrier / recursive_doubling: pairs at distances 1, 2, 4, ... notify each other.
#include <bit>
#include <utility>

#include "algorithms/formula.hpp"
#include "algorithms/registered.hpp"
#include "schedule/builder.hpp"

namespace kolo::algorithms {
namespace {

schedule::Schedule generate_barrier_recursive_doubling(const ScheduleSpec& spec) {
  schedule::ScheduleBuilder builder(spec.collective, spec.rank, spec.size, spec.root, 0);
  // A rank beyond the largest power of two is represented by a rank below it.
  const int within = 1 << floor_log2(ranks_of(spec));
  if (spec.rank >= within) {
    builder.notify(spec.rank - within);
    builder.await(spec.rank - within);
    return std::move(builder).finish();
  }
  const int behind = spec.rank + within;
  schedule::ScheduleBuilder::StepIds heard;
  if (behind < spec.size) heard.push_back(builder.await(behind));
  for (int distance = 1; distance < within; distance *= 2) {
    builder.notify(spec.rank ^ distance, heard);
    heard.push_back(builder.await(spec.rank ^ distance, heard));
  }
  if (behind < spec.size) builder.notify(behind, heard);
  return std::move(builder).finish();
}

}  // namespace

const Algorithm barrier_recursive_doubling = {
    .collective = schedule::Collective::barrier,
    .name = "recursive_doubling",
    .purpose = "Pairs at distances 1, 2, 4, ... tell each other what they have heard",
    .use = "A power of two of ranks on links that are cheapest used both ways at once",
    .source = "E. D. Brooks III: The butterfly barrier, Int. J. Parallel Programming 15 (1986)",
    .closed_form = {.steps = "log2 N; floor(log2 N) + 2 where N is not a power of two",
                    .sent = "0",
                    .cost = [](std::uint64_t n, const ScheduleSpec&) -> StepsAndBytes {
                      return {floor_log2(n) + (std::has_single_bit(n) ? 0 : 2), 0};
                    }},
    .generate = generate_barrier_recursive_doubling,
};

}  // namespace kolo::algorithms
