// barrier / dissemination: each rank notifies the ranks 1, 2, 4, ... after it, log2(N) rounds.
#include <utility>

#include "algorithms/formula.hpp"
#include "algorithms/pairs.hpp"
#include "algorithms/registered.hpp"
#include "schedule/builder.hpp"

namespace kolo::algorithms {
namespace {

schedule::Schedule generate_barrier_dissemination(const ScheduleSpec& spec) {
  schedule::ScheduleBuilder builder(spec.collective, spec.rank, spec.size, spec.root, 0);
  schedule::ScheduleBuilder::StepIds heard;
  for (int distance = 1; distance < spec.size; distance *= 2) {
    builder.notify(after(spec, distance), heard);
    heard.push_back(builder.await(before(spec, distance)));
  }
  return std::move(builder).finish();
}

}  // namespace

const Algorithm barrier_dissemination = {
    .collective = schedule::Collective::barrier,
    .name = "dissemination",
    .purpose = "Each rank tells ranks 1, 2, 4, ... after it what it has heard, log2(N) rounds",
    .use = "The usual one",
    .source =
        "D. Hensgen, R. Finkel, U. Manber: Two algorithms for barrier synchronization, Int. J. Parallel "
        "Programming 17 (1988)",
    .in_shared_memory =
        schedule::SharedMemoryForm{schedule::SharedMemoryForm::Kind::copy, schedule::Held::nothing},
    .closed_form = {.steps = "ceil(log2 N)",
                    .sent = "0",
                    .cost = [](std::uint64_t n, const ScheduleSpec&) -> StepsAndBytes {
                      return {ceil_log2(n), 0};
                    }},
    .generate = generate_barrier_dissemination,
};

}  // namespace kolo::algorithms
