// scatter / direct: the root sends each rank its part.
#include <utility>

#include "algorithms/formula.hpp"
#include "algorithms/pairs.hpp"
#include "algorithms/registered.hpp"
#include "schedule/builder.hpp"

namespace kolo::algorithms {
namespace {

schedule::Schedule generate_scatter_direct(const ScheduleSpec& spec) {
  schedule::ScheduleBuilder builder(spec.collective, spec.rank, spec.size, spec.root, part_of(spec.size));
  if (spec.rank != spec.root) {
    builder.recv(spec.root, schedule::output(0));
  } else {
    for (int k = 1; k < spec.size; ++k)
      builder.send(after(spec, k), schedule::input(part_of(after(spec, k))));
    builder.copy(schedule::output(0), schedule::input(part_of(spec.rank)));
  }
  return std::move(builder).finish();
}

}  // namespace

const Algorithm scatter_direct = {
    .collective = schedule::Collective::scatter,
    .name = "direct",
    .purpose = "The root sends each rank its part",
    .use = "The usual one: every part travels once",
    .source = "Folklore; linear scatter",
    .closed_form = kPartEachStep,
    .generate = generate_scatter_direct,
};

}  // namespace kolo::algorithms
