#include "schedule/rank_check.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "schedule/hazards.hpp"
#include "schedule/memory_map.hpp"
#include "schedule/printer.hpp"
#include "schedule/refusal.hpp"

namespace kolo::schedule {
namespace {

bool is_message(StepKind kind) {
  return kind == StepKind::send || kind == StepKind::recv || kind == StepKind::recv_reduce;
}

bool combines(StepKind kind) {
  return kind == StepKind::recv_reduce || kind == StepKind::reduce;
}

bool fits(std::uint32_t begin, std::uint32_t count, std::uint32_t chunks) {
  return std::uint64_t{begin} + count <= chunks;
}

std::uint32_t part_count(const Schedule& schedule, BufferName buffer) {
  const Division division = division_of(schedule);
  return buffer == BufferName::input ? division.input : division.output;
}

std::string layout_fault(const Schedule& schedule) {
  std::uint64_t slots = 0;
  for (const ChunkRange& run : schedule.scratch_like) {
    if (run.buffer == BufferName::scratch) return "its scratch must be laid out like input or output";
    const std::uint32_t parts = part_count(schedule, run.buffer);
    if (run.begin >= parts || run.count > parts) {
      return fmt::format("its scratch is laid out like {} chunks from {}[{}], of which there are {}",
                         run.count, name_of(run.buffer), run.begin, parts);
    }
    slots += run.count;
  }
  if (slots <= schedule.scratch_chunks) return {};
  return fmt::format("its scratch of {} slots is laid out like {} chunks", schedule.scratch_chunks, slots);
}

/// Why a range of scratch does not have the length that it names; empty if it has.
std::string scratch_fault(const Schedule& schedule, const ChunkRange& range) {
  if (range.like_buffer == BufferName::scratch) return "its scratch must be like input or output";
  const std::uint32_t end = range.begin + range.count;
  std::uint32_t run_begin = 0;
  std::uint32_t run_end = alike_slots(schedule);
  const ChunkRange* layout = nullptr;  // of the run in which the range begins
  for (const ChunkRange& run : schedule.scratch_like) {
    if (range.begin < run_end) break;
    layout = &run;
    run_begin = run_end;
    run_end += run.count;
  }
  if (end > run_end) {
    return fmt::format("its scratch reaches from one run of slots into the next, which begins at {}",
                       run_end);
  }
  if (layout == nullptr) {
    const std::uint32_t parts = part_count(schedule, range.like_buffer);
    if (fits(range.like_begin, range.count, parts)) return {};
    return fmt::format("its scratch is like {}[{}], out of bounds: there are {} chunks",
                       name_of(range.like_buffer), range.like_begin, parts);
  }
  const std::uint32_t first =
      (layout->begin + range.begin - run_begin) % part_count(schedule, layout->buffer);
  if (range.like_buffer == layout->buffer && range.like_begin == first) return {};
  return fmt::format("its scratch is like {}[{}], but the slot is laid out like {}[{}]",
                     name_of(range.like_buffer), range.like_begin, name_of(layout->buffer), first);
}

/// Why a range is out of bounds; empty if it is not.
std::string bounds_fault(const Schedule& schedule, const ChunkRange& range) {
  if (range.count == 0) return {};
  const std::uint32_t chunks = chunk_count(schedule, range.buffer);
  if (!fits(range.begin, range.count, chunks)) {
    return fmt::format("out of bounds: {} has {} chunks", name_of(range.buffer), chunks);
  }
  return range.buffer == BufferName::scratch ? scratch_fault(schedule, range) : std::string();
}

std::string shape_fault(const Schedule& schedule, const Step& step) {
  if (step.kind > StepKind::copy) return "there is no such kind of step";
  if (is_message(step.kind) && (step.peer < 0 || step.peer >= schedule.size)) {
    return fmt::format("there is no rank {}", step.peer);
  }
  if (is_message(step.kind) && step.peer == schedule.rank) return "a message to oneself";
  if (combines(step.kind) && !is_reducing(schedule.collective)) return "its collective reduces nothing";
  if (step.completes && !combines(step.kind)) return "`completes` stands on a step that reduces nothing";
  if (step.incoming_first && step.kind != StepKind::recv_reduce) {
    return "`incoming_first` stands on a step other than recv_reduce";
  }
  return {};
}

std::string dependency_fault(const Schedule& schedule, std::uint32_t id) {
  const Step& step = schedule.steps[id];
  if (std::uint64_t{step.first_dependency} + step.dependency_count > schedule.dependencies.size()) {
    return "its dependencies are out of bounds";
  }
  for (const std::uint32_t d : schedule.dependencies_of(step)) {
    if (d >= id) return fmt::format("it depends on step {}, which is not an earlier one", d);
  }
  return {};
}

std::string range_fault(const Schedule& schedule, const ChunkLengths& lengths, const Step& step) {
  const Footprint touched = footprint(step);
  const ChunkRange& write = touched.write;
  for (const ChunkRange& range : {touched.reads[0], touched.reads[1], write}) {
    if (std::string fault = bounds_fault(schedule, range); !fault.empty()) return fault;
  }
  if (write.count > 0 && write.buffer == BufferName::input) return "it writes to the input";
  if (step.kind == StepKind::send || step.kind == StepKind::recv) return {};
  const int operands = step.kind == StepKind::reduce ? 2 : 1;
  for (int i = 0; i < operands; ++i) {
    const std::uint64_t length = lengths.of(touched.reads[i]);
    if (length != lengths.of(write)) {
      return fmt::format("lengths differ: it makes {} elements of {}", lengths.of(write), length);
    }
  }
  for (const Sharing sharing : kSharings) {
    if (!may_be(schedule, sharing)) continue;
    const MemoryMap map(schedule, sharing);
    for (const ChunkRange& read : touched.reads) {
      if (map.overlap(read, write) && !map.same(read, write)) {
        return fmt::format("what it writes overlaps what it reads{}", suffix_of(sharing));
      }
    }
  }
  return {};
}

/// Finds whether dependencies lead from a step back to an earlier one.
class Ancestry {
 public:
  explicit Ancestry(const Schedule& schedule) : schedule_(schedule), seen_for_(schedule.steps.size(), 0) {}

  bool waits(std::uint32_t later, std::uint32_t earlier) {
    ++question_;
    open_.assign(1, later);
    while (!open_.empty()) {
      const Step& step = schedule_.steps[open_.back()];
      open_.pop_back();
      for (const std::uint32_t d : schedule_.dependencies_of(step)) {
        if (d == earlier) return true;
        if (d < earlier || seen_for_[d] == question_) continue;
        seen_for_[d] = question_;
        open_.push_back(d);
      }
    }
    return false;
  }

 private:
  const Schedule& schedule_;
  std::vector<std::uint64_t> seen_for_;
  std::uint64_t question_ = 0;
  std::vector<std::uint32_t> open_;
};

}  // namespace

Status check_steps(const Schedule& schedule, const ChunkLengths& lengths) {
  if (const std::string fault = layout_fault(schedule); !fault.empty()) return refuse(schedule, fault);
  for (std::uint32_t s = 0; s < schedule.steps.size(); ++s) {
    const Step& step = schedule.steps[s];
    std::string fault = dependency_fault(schedule, s);
    if (fault.empty()) fault = shape_fault(schedule, step);
    if (fault.empty()) fault = range_fault(schedule, lengths, step);
    if (!fault.empty()) return refuse(schedule, s, fault);
  }
  return {};
}

Status check_hazards(const Schedule& schedule) {
  Ancestry ancestry(schedule);
  for (const Sharing sharing : kSharings) {
    if (!may_be(schedule, sharing)) continue;
    HazardTracker hazards{MemoryMap(schedule, sharing)};
    std::vector<std::uint32_t> waits_for;
    for (std::uint32_t s = 0; s < schedule.steps.size(); ++s) {
      waits_for.clear();
      hazards.visit(s, schedule.steps[s], waits_for);
      std::sort(waits_for.begin(), waits_for.end());
      waits_for.erase(std::unique(waits_for.begin(), waits_for.end()), waits_for.end());
      for (const std::uint32_t earlier : waits_for) {
        if (ancestry.waits(s, earlier)) continue;
        return refuse(schedule, s,
                      fmt::format("a data race: it touches the same memory{} as {}, but does not wait for it",
                                  suffix_of(sharing), to_string(schedule, earlier)));
      }
    }
  }
  return {};
}

}  // namespace kolo::schedule
