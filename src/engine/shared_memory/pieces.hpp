// Data passes through the segments, piece by piece: while one piece is read, the next one is put on the
// segments.
#pragma once

#include "engine/shared_memory/call.hpp"

namespace kolo::engine::shared_memory {

/// For each piece t, put_down(t, half) copies this rank's contribution into one half of its segment. When all
/// ranks have done so, read(t, half) reads what this rank needs from the other segments.
template <typename PutDown, typename Read>
Task in_pieces(Call& call, std::uint64_t pieces, PutDown put_down, Read read) {
  const std::uint64_t before = call.number_pieces(pieces);
  const auto show = [&](std::uint64_t t) {
    put_down(t, (before + t) % 2);
    call.publish(call.slot->staged, before + t + 1);
  };
  if (call.counters != nullptr) {
    // A rank that puts a piece down has seen all ranks arrive at the piece before it, after they had read the
    // one before that: its half is free.
    for (std::uint64_t t = 0; t < pieces; ++t) {
      put_down(t, (before + t) % 2);
      co_await call.arrive(before + t, 0);
      read(t, (before + t) % 2);
    }
    call.publish(call.slot->done, call.number);
    co_return;
  }
  if (pieces > 0) show(0);
  for (std::uint64_t t = 0; t < pieces; ++t) {
    if (t + 1 < pieces) {
      // The other half has been read: piece t - 1, or the last piece of the call before.
      co_await (t > 0 ? Wait{&CommSlot::reduced, before + t} : Wait{&CommSlot::done, call.number - 1});
      show(t + 1);
    }
    co_await Wait{&CommSlot::staged, before + t + 1};
    read(t, (before + t) % 2);
    call.publish(call.slot->reduced, before + t + 1);
  }
  // The last piece but one has been read: the next call begins in its half, without a wait.
  if (pieces > 1) co_await Wait{&CommSlot::reduced, before + pieces - 1};
  call.publish(call.slot->done, call.number);
}

}  // namespace kolo::engine::shared_memory
