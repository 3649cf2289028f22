#include "schedule/memory_map.hpp"

namespace kolo::schedule {

bool may_be(const Schedule& schedule, Sharing sharing) {
  const Placement placement = traits_of(schedule.collective).placement;
  if (sharing == Sharing::separate) return placement != Placement::in_place;
  return placement != Placement::apart && !schedule.out_of_place_only;
}

MemoryMap::MemoryMap(const Schedule& schedule, Sharing sharing) {
  const std::uint32_t inputs = chunk_count(schedule, BufferName::input);
  const std::uint32_t outputs = chunk_count(schedule, BufferName::output);
  output_ = inputs;
  scratch_ = inputs + outputs;
  scratch_count_ = schedule.scratch_chunks;
  if (sharing == Sharing::separate || inputs == 0 || outputs == 0) return;
  const auto rank = static_cast<std::uint32_t>(schedule.rank);
  const CollectiveTraits& traits = traits_of(schedule.collective);
  if (traits.input_within_output()) {
    input_ = output_ + rank;
  } else {
    output_ = traits.output_within_input() ? rank : 0;
  }
}

std::uint32_t MemoryMap::first_cell(const ChunkRange& range) const {
  switch (range.buffer) {
    case BufferName::input:
      return input_ + range.begin;
    case BufferName::output:
      return output_ + range.begin;
    case BufferName::scratch:
      break;
  }
  return scratch_ + range.begin;
}

bool MemoryMap::is_idle(const Step& step) const {
  return step.kind == StepKind::copy && same(step.dst, step.a);
}

bool MemoryMap::same(const ChunkRange& one, const ChunkRange& other) const {
  return one.count == other.count && first_cell(one) == first_cell(other);
}

bool MemoryMap::overlap(const ChunkRange& one, const ChunkRange& other) const {
  const std::uint32_t a = first_cell(one);
  const std::uint32_t b = first_cell(other);
  return one.count > 0 && other.count > 0 && a < b + other.count && b < a + one.count;
}

Footprint footprint(const Step& step) {
  switch (step.kind) {
    case StepKind::send:
      return {{step.a, ChunkRange{}}, {}};
    case StepKind::recv:
      return {{}, step.dst};
    case StepKind::recv_reduce:
    case StepKind::copy:
      return {{step.a, ChunkRange{}}, step.dst};
    case StepKind::reduce:
      return {{step.a, step.b}, step.dst};
  }
  return {};
}

}  // namespace kolo::schedule
