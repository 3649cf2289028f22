// all_gather / direct: each rank sends its part to all ranks: one round, for small parts.
#include <utility>

#include "algorithms/direct.hpp"
#include "algorithms/formula.hpp"
#include "algorithms/pairs.hpp"
#include "algorithms/registered.hpp"
#include "schedule/builder.hpp"

namespace kolo::algorithms {
namespace {

schedule::Schedule generate_all_gather_direct(const ScheduleSpec& spec) {
  schedule::ScheduleBuilder builder(spec.collective, spec.rank, spec.size, spec.root, part_of(spec.size));
  Turns turns(builder, spec);
  direct_all_gather(builder, turns, spec, schedule::input(0));
  builder.copy(schedule::output(part_of(spec.rank)), schedule::input(0));
  return std::move(builder).finish();
}

}  // namespace

const Algorithm all_gather_direct = {
    .collective = schedule::Collective::all_gather,
    .name = "direct",
    .purpose = "Each rank sends its part to all ranks: one round, for small parts",
    .use = "Small parts, few ranks: one message each",
    .source = "Folklore; linear all-gather",
    .in_shared_memory =
        schedule::SharedMemoryForm{schedule::SharedMemoryForm::Kind::copy, schedule::Held::own_part},
    .closed_form = kPartEachStep,
    .generate = generate_all_gather_direct,
};

}  // namespace kolo::algorithms
