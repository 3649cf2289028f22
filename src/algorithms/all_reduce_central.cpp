// all_reduce / central: rank 0 combines all data in rank order and sends the result to all ranks.
#include <utility>

#include "algorithms/fold.hpp"
#include "algorithms/formula.hpp"
#include "algorithms/registered.hpp"
#include "schedule/builder.hpp"

namespace kolo::algorithms {
namespace {

schedule::Schedule generate_all_reduce_central(const ScheduleSpec& spec) {
  schedule::ScheduleBuilder builder(spec.collective, spec.rank, spec.size, spec.root, 1,
                                    spec.rank == 0 ? fold_scratch(0) : 0);
  if (spec.rank == 0) {
    fold_in_rank_order(builder, spec, schedule::output(0), schedule::input(0));
    for (int k = 1; k < spec.size; ++k) builder.send(k, schedule::output(0));
  } else {
    builder.send(0, schedule::input(0));
    builder.recv(0, schedule::output(0));
  }
  return std::move(builder).finish();
}

}  // namespace

const Algorithm all_reduce_central = {
    .collective = schedule::Collective::all_reduce,
    .name = "central",
    .purpose =
        "Rank 0 combines everything in rank order and sends each rank the result: the plain central driver",
    .use = "To compare with: the driver's link carries everything",
    .source = "Folklore; the parameter server with one server",
    .rank_ordered = true,
    .closed_form = {.steps = "2(N-1)",
                    .sent = "(N-1) n",
                    .cost = [](std::uint64_t n, const ScheduleSpec&) -> StepsAndBytes {
                      return {2 * (n - 1), n - 1};
                    }},
    .generate = generate_all_reduce_central,
};

}  // namespace kolo::algorithms
