#include "algorithms/direct.hpp"

#include "algorithms/fold.hpp"
#include "algorithms/group.hpp"
#include "algorithms/pairs.hpp"

namespace kolo::algorithms {

void direct_reduce_scatter(schedule::ScheduleBuilder& builder, Turns& turns, const ScheduleSpec& spec,
                           schedule::ChunkRange out) {
  for (int k = 1; k < spec.size; ++k) turns.send(after(spec, k), schedule::input(part_of(after(spec, k))));
  fold_received(builder, all_ranks(spec), out, schedule::input(part_of(spec.rank)));
}

void direct_all_gather(schedule::ScheduleBuilder& builder, Turns& turns, const ScheduleSpec& spec,
                       schedule::ChunkRange own) {
  for (int k = 1; k < spec.size; ++k) {
    turns.send(after(spec, k), own);
    builder.recv(before(spec, k), schedule::output(part_of(before(spec, k))));
  }
}

}  // namespace kolo::algorithms
