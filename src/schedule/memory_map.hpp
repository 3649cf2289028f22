// MemoryMap: which chunks of a rank are the same memory, out of place and in place.
#pragma once

#include <array>
#include <cstdint>

#include "schedule/schedule.hpp"

namespace kolo::schedule {

/// The two ways to bind a schedule: input and output separate, or as one memory (see BufferName).
enum class Sharing : std::uint8_t { separate, in_place };
inline constexpr std::array<Sharing, 2> kSharings = {Sharing::separate, Sharing::in_place};

/// " in place" or empty, for messages.
constexpr const char* suffix_of(Sharing sharing) {
  return sharing == Sharing::in_place ? " in place" : "";
}

/// Whether calls may bind this schedule in this way. broadcast is always in place. barrier, send_recv and
/// schedules that are out_of_place_only never are.
bool may_be(const Schedule& schedule, Sharing sharing);

/// Numbers the chunks of a rank's memory: two ranges share memory exactly if they share a cell. A value.
class MemoryMap {
 public:
  MemoryMap(const Schedule& schedule, Sharing sharing);

  std::uint32_t cells() const { return scratch_ + scratch_count_; }
  /// The first of the range's `count` consecutive cells.
  std::uint32_t first_cell(const ChunkRange& range) const;
  /// Whether the step copies memory onto itself: then it touches nothing.
  bool is_idle(const Step& step) const;
  bool same(const ChunkRange& one, const ChunkRange& other) const;
  bool overlap(const ChunkRange& one, const ChunkRange& other) const;

 private:
  std::uint32_t input_ = 0;
  std::uint32_t output_ = 0;
  std::uint32_t scratch_ = 0;
  std::uint32_t scratch_count_ = 0;
};

/// What a step reads and writes; empty ranges for nothing.
struct Footprint {
  std::array<ChunkRange, 2> reads;
  ChunkRange write;
};
Footprint footprint(const Step& step);

}  // namespace kolo::schedule
