#include "algorithms/fold.hpp"

namespace kolo::algorithms {

void fold_in_rank_order(schedule::ScheduleBuilder& builder, const ScheduleSpec& spec,
                        schedule::ChunkRange out, schedule::ChunkRange own) {
  const int last = spec.size - 1;
  const bool own_is_last = spec.rank == last;
  if (spec.size == 1) {
    builder.copy(out, own);
  } else if (spec.rank == 1) {
    builder.recv_reduce_incoming_first(0, out, own, own_is_last);
  } else if (spec.rank > 1) {
    const schedule::ChunkRange before = schedule::scratch(0, own);
    builder.recv(0, before);
    for (int peer = 1; peer < spec.rank; ++peer) builder.recv_reduce(peer, before, before, false);
    builder.reduce(out, before, own, own_is_last);
  }
  schedule::ChunkRange left = spec.rank == 0 ? own : out;
  for (int peer = spec.rank + 1; peer <= last; ++peer) {
    builder.recv_reduce(peer, out, left, peer == last);
    left = out;
  }
}

void fold_received(schedule::ScheduleBuilder& builder, const Group& group, schedule::ChunkRange out,
                   schedule::ChunkRange own, bool completes, std::uint32_t first_slot) {
  const int last = group.size() - 1;
  const auto received = [&](int place) {
    const auto slot = static_cast<std::uint32_t>(place < group.place() ? place : place - 1);
    return schedule::scratch(first_slot + slot * own.count, own);
  };
  for (int k = 1; k <= last; ++k) {
    const int place = (group.place() + group.size() - k) % group.size();
    builder.recv(group.at(place), received(place));
  }
  if (last == 0) builder.copy(out, own);
  schedule::ChunkRange left = group.place() == 0 ? own : received(0);
  for (int place = 1; place <= last; ++place) {
    const bool is_own = place == group.place();
    // A sum of earlier contributions must not be in `out`: in place, `out` still holds this rank's own.
    const schedule::ChunkRange sum = place < group.place() ? left : out;
    builder.reduce(sum, left, is_own ? own : received(place), completes && place == last);
    left = sum;
  }
}

}  // namespace kolo::algorithms
