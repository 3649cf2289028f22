// gather / direct: each rank sends its part to the root.
#include <utility>

#include "algorithms/formula.hpp"
#include "algorithms/pairs.hpp"
#include "algorithms/registered.hpp"
#include "schedule/builder.hpp"

namespace kolo::algorithms {
namespace {

schedule::Schedule generate_gather_direct(const ScheduleSpec& spec) {
  schedule::ScheduleBuilder builder(spec.collective, spec.rank, spec.size, spec.root, part_of(spec.size));
  if (spec.rank != spec.root) {
    builder.send(spec.root, schedule::input(0));
  } else {
    for (int k = 1; k < spec.size; ++k)
      builder.recv(before(spec, k), schedule::output(part_of(before(spec, k))));
    builder.copy(schedule::output(part_of(spec.rank)), schedule::input(0));
  }
  return std::move(builder).finish();
}

}  // namespace

const Algorithm gather_direct = {
    .collective = schedule::Collective::gather,
    .name = "direct",
    .purpose = "Each rank sends its part to the root",
    .use = "The usual one: every part travels once",
    .source = "Folklore; linear gather",
    .closed_form = {.steps = "N-1",
                    .sent = "1/N n",
                    .cost = [](std::uint64_t n, const ScheduleSpec&) -> StepsAndBytes {
                      return {n - 1, n > 1 ? 1u : 0u};
                    }},
    .generate = generate_gather_direct,
};

}  // namespace kolo::algorithms
