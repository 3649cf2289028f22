#include "schedule/schedule.hpp"

#include <algorithm>
#include <array>

#include "base/names.hpp"

namespace kolo::schedule {
namespace {

constexpr std::array<std::string_view, 3> kBufferNames = {"input", "output", "scratch"};
constexpr std::array<std::string_view, 5> kStepKinds = {"send", "recv", "recv_reduce", "reduce", "copy"};

}  // namespace

std::string_view name_of(Collective collective) noexcept {
  return static_cast<std::size_t>(collective) < kCollectives.size() ? traits_of(collective).name : "unknown";
}

bool parse_collective(std::string_view name, Collective& out) noexcept {
  const auto* const found = std::ranges::find(kCollectives, name, &CollectiveTraits::name);
  if (found == kCollectives.end()) return false;
  out = static_cast<Collective>(found - kCollectives.begin());
  return true;
}

std::string_view name_of(BufferName buffer) noexcept {
  return name_among(kBufferNames, buffer);
}

std::string_view name_of(StepKind kind) noexcept {
  return name_among(kStepKinds, kind);
}

Division division_of(const Schedule& schedule) {
  const auto count = [&](Parts parts) -> std::uint32_t {
    if (parts == Parts::chunks) return schedule.chunks;
    if (parts == Parts::per_rank) return static_cast<std::uint32_t>(schedule.size);
    return parts == Parts::own ? 1 : 0;
  };
  const CollectiveTraits& traits = traits_of(schedule.collective);
  return {count(traits.input), count(traits.output)};
}

std::uint32_t chunk_count(const Schedule& schedule, BufferName buffer) {
  if (buffer == BufferName::scratch) return schedule.scratch_chunks;
  const Division division = division_of(schedule);
  const CollectiveTraits& traits = traits_of(schedule.collective);
  const bool is_root = schedule.rank == schedule.root;
  if (buffer == BufferName::input) return traits.has_input(is_root) ? division.input : 0;
  return traits.has_output(is_root) ? division.output : 0;
}

std::uint32_t alike_slots(const Schedule& schedule) {
  std::uint32_t slots = schedule.scratch_chunks;
  for (const ChunkRange& like : schedule.scratch_like) slots -= like.count;
  return slots;
}

}  // namespace kolo::schedule
