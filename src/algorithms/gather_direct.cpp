// gather / direct: each rank sends its part to the root.
#include <utility>

#include "algorithms/algorithm.hpp"
#include "algorithms/pairs.hpp"
#include "schedule/builder.hpp"

namespace kolo {
namespace {

Schedule generate(const ScheduleSpec& spec) {
  ScheduleBuilder builder(spec.collective, spec.rank, spec.size, spec.root, part_of(spec.size));
  if (spec.rank != spec.root) {
    builder.send(spec.root, input(0));
  } else {
    for (int k = 1; k < spec.size; ++k) builder.recv(before(spec, k), output(part_of(before(spec, k))));
    builder.copy(output(part_of(spec.rank)), input(0));
  }
  return std::move(builder).finish();
}

}  // namespace

extern const Algorithm gather_direct;
const Algorithm gather_direct = {
    .collective = Collective::gather,
    .name = "direct",
    .purpose = "Each rank sends its part to the root",
    .source = "Folklore; linear gather",
    .rank_ordered = false,
    .generate = generate,
};

}  // namespace kolo
