// Schedule: an algorithm as data: what one rank sends, receives and reduces, in chunks and without addresses.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "schedule/collective.hpp"

namespace kolo::schedule {

/// The three buffers that a step may name. The table of the collectives says how input and output divide
/// into chunks, which ranks have them, and whether they may be the same memory.
///
/// scratch: `scratch_chunks` slots, each as large as the largest chunk of input and output. Slots have no
/// lengths of their own. So a range of scratch names the chunks of input or output whose lengths its data has
/// (`like_buffer`, `like_begin`). Every rank knows how input and output divide, even if it does not have that
/// memory. A range of several slots is packed: its data begins at the first slot and has no gaps. input is
/// never written, except through output in place.
///
/// The last slots may be laid out instead, by `scratch_like`: run by run like those chunks of input or
/// output, counted around the end. These slots have the lengths of their chunks and follow one another
/// without gaps. So any range of a run is one piece of memory, as in input and output. No range reaches from
/// one run into another, or from the other slots into the first run.
enum class BufferName : std::uint8_t { input, output, scratch };
std::string_view name_of(BufferName buffer) noexcept;

/// `count` chunks of a buffer from chunk `begin`. A count of 0 is the empty range (barrier).
struct ChunkRange {
  BufferName buffer = BufferName::scratch;
  std::uint32_t begin = 0;
  std::uint32_t count = 0;
  /// scratch only: its data has the lengths of chunks like_begin .. like_begin + count of like_buffer. If the
  /// slots are laid out like chunks, it must be those chunks, counted around the end.
  BufferName like_buffer = BufferName::output;
  std::uint32_t like_begin = 0;

  bool operator==(const ChunkRange&) const = default;
};

enum class StepKind : std::uint8_t {
  send,         ///< a -> peer
  recv,         ///< peer -> dst
  recv_reduce,  ///< dst = a op (what the peer sent), or (what the peer sent) op a with `incoming_first`
  reduce,       ///< dst = a op b
  copy,         ///< dst = a; no effect if both are the same memory in place
};
std::string_view name_of(StepKind kind) noexcept;

/// One step. The k-th send of rank A to rank B matches the k-th recv or recv_reduce of rank B from rank A, in
/// the order of the steps in their schedules. The order in which steps become ready does not matter.
struct Step {
  StepKind kind = StepKind::copy;
  bool incoming_first = false;  ///< recv_reduce only: the peer's operand is the left one.
  /// The step completes the reduction of its chunks, so an average is divided here. Generators set it on
  /// exactly those reducing steps whose result holds the contribution of every rank.
  bool completes = false;
  std::int32_t peer = -1;
  ChunkRange dst;
  ChunkRange a;
  ChunkRange b;
  std::uint32_t first_dependency = 0;  ///< into Schedule::dependencies
  std::uint32_t dependency_count = 0;
};

/// The steps of one rank. Dependencies name earlier steps of the same schedule; a step may run once all of
/// its dependencies are finished. A send is finished when its memory may be overwritten, a recv when its data
/// is in place. Nothing else orders steps. So dependencies must order any two steps that touch the same
/// memory, one of them writing, also when input and output are the same memory.
struct Schedule {
  Collective collective = Collective::all_reduce;
  std::int32_t rank = 0;
  std::int32_t size = 1;
  std::int32_t root = 0;
  std::uint32_t chunks = 1;  ///< C above, if the collective leaves it to the algorithm; else N.
  std::uint32_t scratch_chunks = 0;
  /// How the last slots of scratch are laid out (see BufferName), a slot for each chunk. Empty: all slots are
  /// alike.
  std::vector<ChunkRange> scratch_like;
  /// Correct only if input and output are different memory (`direct` of all_to_all): never bind it in place.
  bool out_of_place_only = false;
  std::vector<Step> steps;
  std::vector<std::uint32_t> dependencies;

  std::span<const std::uint32_t> dependencies_of(const Step& step) const {
    return {dependencies.data() + step.first_dependency, step.dependency_count};
  }
};

/// The number of chunks into which the collective divides its input and output, whether or not this rank has
/// them.
struct Division {
  std::uint32_t input = 0;
  std::uint32_t output = 0;
};
Division division_of(const Schedule& schedule);

/// The number of chunks of input or output on the schedule's rank (see BufferName); for scratch, its slots.
std::uint32_t chunk_count(const Schedule& schedule, BufferName buffer);

/// The number of slots of scratch before those that are laid out by `scratch_like`; they are all alike.
std::uint32_t alike_slots(const Schedule& schedule);

}  // namespace kolo::schedule
