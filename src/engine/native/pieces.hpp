// Data over the boards, piece by piece: while one is read the next is put down.
#pragma once

#include "engine/native/call.hpp"

namespace kolo::native {

/// Of each piece t, this rank puts what it shows into the half of its board that is given, put_down(t, half),
/// and when all have done so, reads what it needs of theirs, read(t, half).
template <typename PutDown, typename Read>
Task in_pieces(Call& call, std::uint64_t pieces, PutDown put_down, Read read) {
  const std::uint64_t before = *call.pieces;
  *call.pieces += pieces;
  const auto show = [&](std::uint64_t t) {
    put_down(t, (before + t) % 2);
    call.publish(call.lane->staged, before + t + 1);
  };
  co_await Wait{&Lane::done, call.number - 1};  // the boards are free
  if (pieces > 0) show(0);
  for (std::uint64_t t = 0; t < pieces; ++t) {
    if (t + 1 < pieces) {
      if (t > 0) co_await Wait{&Lane::reduced, before + t};  // piece t - 1 has been read
      show(t + 1);
    }
    co_await Wait{&Lane::staged, before + t + 1};
    read(t, (before + t) % 2);
    call.publish(call.lane->reduced, before + t + 1);
  }
  call.publish(call.lane->done, call.number);
}

}  // namespace kolo::native
