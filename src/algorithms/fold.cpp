#include "algorithms/fold.hpp"

namespace kolo {

void fold_in_rank_order(ScheduleBuilder& builder, const ScheduleSpec& spec, ChunkRange out, ChunkRange own) {
  const int last = spec.size - 1;
  const bool own_is_last = spec.rank == last;
  if (spec.size == 1) {
    builder.copy(out, own);
  } else if (spec.rank == 1) {
    builder.recv_reduce_incoming_first(0, out, own, own_is_last);
  } else if (spec.rank > 1) {
    const ChunkRange before = scratch(0, own);
    builder.recv(0, before);
    for (int peer = 1; peer < spec.rank; ++peer) builder.recv_reduce(peer, before, before, false);
    builder.reduce(out, before, own, own_is_last);
  }
  ChunkRange left = spec.rank == 0 ? own : out;
  for (int peer = spec.rank + 1; peer <= last; ++peer) {
    builder.recv_reduce(peer, out, left, peer == last);
    left = out;
  }
}

}  // namespace kolo
