#include "schedule/schedule.hpp"

#include <array>

#include "base/names.hpp"

namespace kolo::schedule {
namespace {

constexpr std::array<std::string_view, 10> kCollectives = {
    "all_reduce", "reduce_scatter", "all_gather", "broadcast", "reduce",
    "scatter",    "gather",         "all_to_all", "barrier",   "send_recv",
};
constexpr std::array<std::string_view, 3> kBufferNames = {"input", "output", "scratch"};
constexpr std::array<std::string_view, 5> kStepKinds = {"send", "recv", "recv_reduce", "reduce", "copy"};

}  // namespace

std::string_view name_of(Collective collective) noexcept {
  return name_among(kCollectives, collective);
}

bool parse_collective(std::string_view name, Collective& out) noexcept {
  return value_among(kCollectives, name, out);
}

std::string_view name_of(BufferName buffer) noexcept {
  return name_among(kBufferNames, buffer);
}

std::string_view name_of(StepKind kind) noexcept {
  return name_among(kStepKinds, kind);
}

Division division_of(const Schedule& schedule) {
  const auto parts = static_cast<std::uint32_t>(schedule.size);
  switch (schedule.collective) {
    case Collective::all_reduce:
    case Collective::broadcast:
    case Collective::reduce:
      return {schedule.chunks, schedule.chunks};
    case Collective::reduce_scatter:
    case Collective::scatter:
      return {parts, 1};
    case Collective::all_gather:
    case Collective::gather:
      return {1, parts};
    case Collective::all_to_all:
      return {parts, parts};
    case Collective::send_recv:
      return {1, 1};
    case Collective::barrier:
      break;
  }
  return {0, 0};
}

std::uint32_t chunk_count(const Schedule& schedule, BufferName buffer) {
  if (buffer == BufferName::scratch) return schedule.scratch_chunks;
  const Division division = division_of(schedule);
  const bool is_root = schedule.rank == schedule.root;
  const Collective c = schedule.collective;
  if (buffer == BufferName::input) {
    const bool at_root_only = c == Collective::broadcast || c == Collective::scatter;
    return at_root_only && !is_root ? 0 : division.input;
  }
  const bool at_root_only = c == Collective::reduce || c == Collective::gather;
  return at_root_only && !is_root ? 0 : division.output;
}

std::uint32_t alike_slots(const Schedule& schedule) {
  std::uint32_t slots = schedule.scratch_chunks;
  for (const ChunkRange& like : schedule.scratch_like) slots -= like.count;
  return slots;
}

}  // namespace kolo::schedule
