#include "algorithms/compose.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

#include "schedule/builder.hpp"

namespace kolo::algorithms {
namespace {

/// Maps a part's chunks to the memory of the whole schedule.
class Embedding {
 public:
  /// `scale` chunks of the whole make one of the part's. The part's slots that are all alike are the first
  /// slots of the whole. Slots that are laid out like chunks begin at `laid_out`.
  Embedding(const Part& part, std::uint32_t scale, std::uint32_t laid_out)
      : input_(part.input),
        scale_(scale),
        alike_(schedule::alike_slots(part.schedule)),
        laid_out_(laid_out) {}

  schedule::ChunkRange operator()(const schedule::ChunkRange& range) const {
    const bool is_laid_out = range.buffer == schedule::BufferName::scratch && range.begin >= alike_;
    return {buffer(range.buffer),
            is_laid_out ? laid_out_ + (range.begin - alike_) * scale_ : range.begin * scale_,
            range.count * scale_, buffer(range.like_buffer), range.like_begin * scale_};
  }

 private:
  schedule::BufferName buffer(schedule::BufferName of) const {
    return of == schedule::BufferName::input ? input_ : of;
  }

  schedule::BufferName input_;
  std::uint32_t scale_;
  std::uint32_t alike_;
  std::uint32_t laid_out_;
};

void splice(schedule::ScheduleBuilder& builder, const Part& part, const Embedding& embed) {
  schedule::ScheduleBuilder::StepIds ids;  // of the part's steps, in the whole schedule
  for (const schedule::Step& step : part.schedule.steps) {
    schedule::ScheduleBuilder::StepIds waits_for;
    for (const std::uint32_t before : part.schedule.dependencies_of(step)) waits_for.push_back(ids[before]);
    schedule::Step whole = step;
    if (step.peer >= 0) whole.peer = part.ranks[static_cast<std::size_t>(step.peer)];
    whole.completes = step.completes && part.is_last_sum;
    whole.dst = embed(step.dst);
    whole.a = embed(step.a);
    whole.b = embed(step.b);
    ids.push_back(builder.add(whole, waits_for));
  }
}

}  // namespace

schedule::Schedule compose(const ScheduleSpec& spec, std::uint32_t chunks, const std::vector<Part>& parts) {
  const auto scale = [&](const Part& part) { return chunks / part.schedule.chunks; };
  std::uint32_t slots = 0;
  for (const Part& part : parts) slots = std::max(slots, schedule::alike_slots(part.schedule) * scale(part));
  schedule::ScheduleBuilder builder(spec.collective, spec.rank, spec.size, spec.root, chunks, slots);
  std::vector<Embedding> embeddings;
  for (const Part& part : parts) {
    const Embedding& embed = embeddings.emplace_back(part, scale(part), slots);
    for (const schedule::ChunkRange& run : part.schedule.scratch_like) {
      const schedule::ChunkRange laid_out = embed(run);
      builder.lay_scratch_like(laid_out);
      slots += laid_out.count;
    }
  }
  if (parts.empty()) builder.copy(schedule::output(0, chunks), schedule::input(0, chunks));
  for (std::size_t i = 0; i < parts.size(); ++i) splice(builder, parts[i], embeddings[i]);
  return std::move(builder).finish();
}

schedule::Schedule reduce_then_broadcast(const ScheduleSpec& spec, std::string_view name) {
  std::vector<int> ranks(static_cast<std::size_t>(spec.size));
  std::iota(ranks.begin(), ranks.end(), 0);
  const auto part = [&](schedule::Collective collective, schedule::BufferName input) {
    const ScheduleSpec inner{collective, spec.rank, spec.size, 0, spec.arguments, {}};
    return Part{find_algorithm(collective, name)->generate(inner), ranks, input, true};
  };
  const std::vector<Part> parts = {part(schedule::Collective::reduce, schedule::BufferName::input),
                                   part(schedule::Collective::broadcast, schedule::BufferName::output)};
  return compose(spec, std::lcm(parts[0].schedule.chunks, parts[1].schedule.chunks), parts);
}

}  // namespace kolo::algorithms
