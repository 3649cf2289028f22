#include "algorithms/direct.hpp"

#include "algorithms/fold.hpp"
#include "algorithms/group.hpp"
#include "algorithms/pairs.hpp"

namespace kolo {

void direct_reduce_scatter(ScheduleBuilder& builder, const ScheduleSpec& spec, ChunkRange out) {
  for (int k = 1; k < spec.size; ++k) builder.send(after(spec, k), input(part_of(after(spec, k))));
  fold_received(builder, everybody(spec), out, input(part_of(spec.rank)));
}

void direct_all_gather(ScheduleBuilder& builder, const ScheduleSpec& spec, ChunkRange own) {
  for (int k = 1; k < spec.size; ++k) {
    builder.send(after(spec, k), own);
    builder.recv(before(spec, k), output(part_of(before(spec, k))));
  }
}

}  // namespace kolo
