#include "algorithms/compose.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

#include "schedule/builder.hpp"

namespace kolo {
namespace {

/// A part's range in the buffers of the whole, where `scale` chunks make one of the part's.
ChunkRange embedded(const ChunkRange& range, BufferName input, std::uint32_t scale) {
  const auto buffer = [&](BufferName of) { return of == BufferName::input ? input : of; };
  return {buffer(range.buffer), range.begin * scale, range.count * scale, buffer(range.like_buffer),
          range.like_begin * scale};
}

void splice(ScheduleBuilder& builder, std::uint32_t chunks, const Part& part) {
  const auto embed = [&](const ChunkRange& range) {
    return embedded(range, part.input, chunks / part.schedule.chunks);
  };
  std::vector<ScheduleBuilder::StepId> ids;  // of the part's steps, in the whole
  for (const Step& step : part.schedule.steps) {
    std::vector<ScheduleBuilder::StepId> waits_for;
    for (const std::uint32_t before : part.schedule.dependencies_of(step)) waits_for.push_back(ids[before]);
    Step whole = step;
    if (step.peer >= 0) whole.peer = part.ranks[static_cast<std::size_t>(step.peer)];
    whole.completes = step.completes && part.is_last_sum;
    whole.dst = embed(step.dst);
    whole.a = embed(step.a);
    whole.b = embed(step.b);
    ids.push_back(builder.add(whole, waits_for));
  }
}

}  // namespace

Schedule compose(const ScheduleSpec& spec, std::uint32_t chunks, const std::vector<Part>& parts) {
  std::uint32_t scratch_chunks = 0;
  for (const Part& part : parts) {
    const std::uint32_t scale = chunks / part.schedule.chunks;
    scratch_chunks = std::max(scratch_chunks, part.schedule.scratch_chunks * scale);
  }
  ScheduleBuilder builder(spec.collective, spec.rank, spec.size, spec.root, chunks, scratch_chunks);
  if (parts.empty()) builder.copy(output(0, chunks), input(0, chunks));
  for (const Part& part : parts) splice(builder, chunks, part);
  return std::move(builder).finish();
}

Schedule reduce_then_broadcast(const ScheduleSpec& spec, std::string_view name) {
  std::vector<int> ranks(static_cast<std::size_t>(spec.size));
  std::iota(ranks.begin(), ranks.end(), 0);
  const auto part = [&](Collective collective, BufferName input) {
    const ScheduleSpec inner{collective, spec.rank, spec.size, 0, spec.arguments, {}};
    return Part{find_algorithm(collective, name)->generate(inner), ranks, input, true};
  };
  const std::vector<Part> parts = {part(Collective::reduce, BufferName::input),
                                   part(Collective::broadcast, BufferName::output)};
  return compose(spec, std::lcm(parts[0].schedule.chunks, parts[1].schedule.chunks), parts);
}

}  // namespace kolo
