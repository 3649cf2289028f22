// all_to_all / direct: each rank sends each other rank its part straight from input to output; not in place.
#include <utility>

#include "algorithms/formula.hpp"
#include "algorithms/pairs.hpp"
#include "algorithms/registered.hpp"
#include "algorithms/turns.hpp"
#include "schedule/builder.hpp"

namespace kolo::algorithms {
namespace {

schedule::Schedule generate_all_to_all_direct(const ScheduleSpec& spec) {
  schedule::ScheduleBuilder builder(spec.collective, spec.rank, spec.size, spec.root, part_of(spec.size));
  builder.require_out_of_place();
  Turns turns(builder, spec);
  for (int k = 1; k < spec.size; ++k) {
    turns.send(after(spec, k), schedule::input(part_of(after(spec, k))));
    builder.recv(before(spec, k), schedule::output(part_of(before(spec, k))));
  }
  builder.copy(schedule::output(part_of(spec.rank)), schedule::input(part_of(spec.rank)));
  return std::move(builder).finish();
}

}  // namespace

const Algorithm all_to_all_direct = {
    .collective = schedule::Collective::all_to_all,
    .name = "direct",
    .purpose = "Each rank sends each other rank its part straight from input to output; not in place",
    .use = "The usual one: every part travels once",
    .source =
        "R. Thakur, R. Rabenseifner, W. Gropp: Optimization of collective communication operations in MPICH, "
        "IJHPCA 19 (2005), all-to-all, pairwise exchange",
    .out_of_place_only = true,
    .closed_form = kPartEachStep,
    .generate = generate_all_to_all_direct,
};

}  // namespace kolo::algorithms
