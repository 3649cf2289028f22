// SharedMemoryForm::Kind::copy: each rank copies the other ranks' contributions.
#include <algorithm>

#include "engine/shared_memory/pieces.hpp"

namespace kolo::engine::shared_memory {
namespace {

/// Long enough for kernels::copy() to know that caches do not help.
constexpr std::uint64_t kCopyBytes = 32 << 20;

Task copy_shared(Call& call) {
  for (int r = 0; r < call.size; ++r) {
    const std::uint64_t bytes = r == call.rank ? 0 : call.shape->shown_bytes(r);
    for (std::uint64_t at = 0; at < bytes; at += kCopyBytes) {
      kernels::copy(call.place_of(r) + at, call.inputs[static_cast<std::size_t>(r)] + at,
                    std::min(kCopyBytes, bytes - at));
      co_await Wait{};
    }
  }
  co_await call.finish();  // all ranks have read this rank's input
}

Task copy_staged(Call& call) {
  const std::uint64_t own = call.shape->shown_bytes(call.rank);
  const std::uint64_t piece = call.piece_bytes();
  const auto length = [piece](std::uint64_t bytes, std::uint64_t t) {
    return std::min(piece, bytes - std::min(bytes, t * piece));
  };
  const auto put_down = [=, &call](std::uint64_t t, std::size_t half) {
    if (length(own, t) > 0) call.show(call.slot->pieces[half], call.input + t * piece, length(own, t), true);
  };
  const auto read = [=, &call](std::uint64_t t, std::size_t half) {
    for (int r = 0; r < call.size; ++r) {
      const std::uint64_t bytes = length(call.shape->shown_bytes(r), t);
      if (r == call.rank || bytes == 0) continue;
      call.take(call.place_of(r) + t * piece, call.slots[static_cast<std::size_t>(r)]->pieces[half], bytes,
                call.size == 2);
    }
  };
  return in_pieces(call, (call.shape->most_shown + piece - 1) / piece, put_down, read);
}

}  // namespace

Task copy(Call& call) {
  const std::uint64_t own = call.shape->shown_bytes(call.rank);
  if (own > 0 && call.place_of(call.rank) != call.input)
    kernels::copy(call.place_of(call.rank), call.input, own);
  return call.inputs.empty() ? copy_staged(call) : copy_shared(call);
}

}  // namespace kolo::engine::shared_memory
