// broadcast / direct: the root sends to all ranks.
#include <utility>

#include "algorithms/formula.hpp"
#include "algorithms/pairs.hpp"
#include "algorithms/registered.hpp"
#include "schedule/builder.hpp"

namespace kolo::algorithms {
namespace {

schedule::Schedule generate_broadcast_direct(const ScheduleSpec& spec) {
  schedule::ScheduleBuilder builder(spec.collective, spec.rank, spec.size, spec.root, 1);
  if (spec.rank != spec.root) {
    builder.recv(spec.root, schedule::output(0));
  } else {
    for (int k = 1; k < spec.size; ++k) builder.send(after(spec, k), schedule::output(0));
  }
  return std::move(builder).finish();
}

}  // namespace

const Algorithm broadcast_direct = {
    .collective = schedule::Collective::broadcast,
    .name = "direct",
    .purpose = "The root sends to each rank",
    .use = "Two or three ranks; to compare with",
    .source = "Folklore; linear broadcast",
    .in_shared_memory =
        schedule::SharedMemoryForm{schedule::SharedMemoryForm::Kind::copy, schedule::Held::all_at_root},
    .closed_form = kAllEachStep,
    .generate = generate_broadcast_direct,
};

}  // namespace kolo::algorithms
