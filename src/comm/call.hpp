// Call: one collective as the user asked for it, checked before any byte moves.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "base/status.hpp"
#include "comm/lists.hpp"
#include "engine/inside_reduction.hpp"
#include "kolo/communicator.hpp"
#include "schedule/call_key.hpp"

namespace kolo::engine {
struct PreparedCall;
}

namespace kolo::comm {

/// No memory holds more elements, and their bytes still fit in 63 bits.
inline constexpr std::uint64_t kMostElements = std::uint64_t{1} << 58;

inline const CallOptions kUsual;

using CountSpan = std::span<const std::uint64_t>;

/// As Call::split: create_group(), whose calls differ by their sequence numbers.
inline constexpr std::uint32_t kCreatesGroup = ~std::uint32_t{0};

/// What was found out about a call before it starts, and again.
struct CheckedCall {
  schedule::CallKey key = {};
  std::shared_ptr<const engine::PreparedCall> prepared = nullptr;  ///< null: that of the key
};

/// The arguments of any collective in one form.
struct Call {
  schedule::Collective collective = schedule::Collective::barrier;
  ConstBuffer in;
  Buffer out;
  int root = 0;
  Reduction reduction = ReduceOp::sum;
  const CallOptions* options = &kUsual;  ///< outlive the Call
  Lists* lists = nullptr;                ///< in place of `in`, of `out` or of both; outlives the Call
  bool one_buffer = false;               ///< all_to_all in place
  const CheckedCall* checked = nullptr;  ///< check() has passed the call; outlives it
  std::uint32_t split = 0;  ///< the number of the split() or subgroup() that makes this call; 0: none
};

/// Fills in `key`, but for what `options` say, or says what is wrong with the arguments. Clears a buffer that
/// the call ignores on this rank. `counts` and `recv_counts` as the user gave them.
Status check(Call& call, int rank, int size, CountSpan counts, CountSpan recv_counts, schedule::CallKey& key);

/// The input of a premultiplied sum.
struct Unscaled {
  const void* data = nullptr;  ///< null: the reduction is another
  double factor = 1;
};
/// Makes a call of a premultiplied sum, which check() has passed, one of a sum of scaled contributions. Its
/// input is then the output, if that has room for it, else memory that the reduction keeps: still to be
/// written, as the last thing that can fail, from what is returned.
Unscaled place_scaled_input(Call& call, schedule::CallKey& key);
/// Writes it. A list of inputs is then done with.
void scale(const Unscaled& unscaled, const Call& call);

/// Whether calls may use this memory: the place where a call on a device's memory is told from all others.
inline bool is_usable(const ConstBuffer& buffer) {
  return static_cast<int>(buffer.dtype) < kDTypeCount && (buffer.data != nullptr || buffer.count == 0) &&
         buffer.count <= kMostElements && buffer.device == Device();
}
inline constexpr const char* kNoDeviceForStream =
    "`stream` orders calls on a device's memory, and the buffers are in the host's";
/// Whether one of its buffers is on a device.
bool is_on_device(const Call& call);
/// What is wrong with the argument of that name, which is not usable.
std::string why_not_usable(std::string_view name, const ConstBuffer& buffer);
/// An InvalidArgumentError of the call.
Status wrong(std::string_view call, const std::string& what);
Status wrong(const Call& call, const std::string& what);

[[noreturn]] void throw_inside_reduction(std::string_view call);
/// Throws InvalidArgumentError inside a reduction of the caller's own. The engine that runs it makes no
/// progress meanwhile, so a call would wait forever.
inline void refuse_inside_reduction(std::string_view call) {
  if (engine::InsideReduction::is_here()) [[unlikely]]
    throw_inside_reduction(call);
}

/// Says what is wrong with the wire format that the caller names.
Status check_wire(const schedule::CallKey& key, Wire wire);
/// Why a call cannot have a wire format that rounds; empty where it can.
std::string why_not_rounded(const schedule::CallKey& key);

}  // namespace kolo::comm
