// broadcast / direct: the root sends to everyone.
#include <utility>

#include "algorithms/algorithm.hpp"
#include "algorithms/pairs.hpp"
#include "schedule/builder.hpp"

namespace kolo {
namespace {

Schedule generate(const ScheduleSpec& spec) {
  ScheduleBuilder builder(spec.collective, spec.rank, spec.size, spec.root, 1);
  if (spec.rank != spec.root) {
    builder.recv(spec.root, output(0));
  } else {
    for (int k = 1; k < spec.size; ++k) builder.send(after(spec, k), output(0));
  }
  return std::move(builder).finish();
}

}  // namespace

extern const Algorithm broadcast_direct;
const Algorithm broadcast_direct = {
    .collective = Collective::broadcast,
    .name = "direct",
    .purpose = "The root sends to everyone",
    .source = "Folklore; linear broadcast",
    .rank_ordered = false,
    .generate = generate,
};

}  // namespace kolo
