// all_reduce / naive: each rank sends all its data to all ranks; each combines by itself.
#include <utility>

#include "algorithms/fold.hpp"
#include "algorithms/formula.hpp"
#include "algorithms/group.hpp"
#include "algorithms/pairs.hpp"
#include "algorithms/registered.hpp"
#include "algorithms/turns.hpp"
#include "schedule/builder.hpp"

namespace kolo::algorithms {
namespace {

schedule::Schedule generate_all_reduce_naive(const ScheduleSpec& spec) {
  schedule::ScheduleBuilder builder(spec.collective, spec.rank, spec.size, spec.root, 1,
                                    received_scratch(spec.size));
  Turns turns(builder, spec);
  for (int k = 1; k < spec.size; ++k) turns.send(after(spec, k), schedule::input(0));
  fold_received(builder, all_ranks(spec), schedule::output(0), schedule::input(0));
  return std::move(builder).finish();
}

}  // namespace

const Algorithm all_reduce_naive = {
    .collective = schedule::Collective::all_reduce,
    .name = "naive",
    .purpose = "Each rank sends each other one all its data and combines by itself, in rank order",
    .use = "A few bytes among few ranks: no rank waits for another rank's sum",
    .source = "Folklore; all-gather, then reduce at home",
    .rank_ordered = true,
    .closed_form = kAllEachStep,
    .generate = generate_all_reduce_naive,
};

}  // namespace kolo::algorithms
