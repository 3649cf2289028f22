#include "schedule/printer.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <utility>

namespace kolo::schedule {
namespace {

std::string to_string(const ChunkRange& range) {
  if (range.count == 0) return "nothing";
  if (range.count == 1) return fmt::format("{}[{}]", name_of(range.buffer), range.begin);
  // 64 bits, because invalid schedules are printed too.
  return fmt::format("{}[{}..{}]", name_of(range.buffer), range.begin,
                     std::uint64_t{range.begin} + range.count - 1);
}

std::string action(const Step& step) {
  const std::string dst = to_string(step.dst);
  const std::string a = to_string(step.a);
  switch (step.kind) {
    case StepKind::send:
      return fmt::format("send to {}: {}", step.peer, a);
    case StepKind::recv:
      if (step.dst.count == 0) return fmt::format("recv from {}: nothing", step.peer);
      return fmt::format("recv from {}: {} = incoming", step.peer, dst);
    case StepKind::recv_reduce:
      if (step.incoming_first)
        return fmt::format("recv_reduce from {}: {} = incoming + {}", step.peer, dst, a);
      return fmt::format("recv_reduce from {}: {} = {} + incoming", step.peer, dst, a);
    case StepKind::reduce:
      return fmt::format("reduce: {} = {} + {}", dst, a, to_string(step.b));
    case StepKind::copy:
      return fmt::format("copy: {} = {}", dst, a);
  }
  return "unknown step";
}

}  // namespace

std::string to_string(const Schedule& schedule, std::uint32_t step) {
  const Step& s = schedule.steps[step];
  std::string text = fmt::format("step {}: {}{}", step, action(s), s.completes ? " (completes)" : "");
  if (s.dependency_count == 0) return text;
  if (std::uint64_t{s.first_dependency} + s.dependency_count > schedule.dependencies.size()) {
    return text + " after steps that its schedule does not list";
  }
  const auto waits_for = schedule.dependencies_of(s);
  return fmt::format("{} after {}", text, fmt::join(waits_for.begin(), waits_for.end(), ", "));
}

std::string to_string(const Schedule& schedule) {
  std::string text =
      fmt::format("{}, rank {} of {}", name_of(schedule.collective), schedule.rank, schedule.size);
  if (has_root(schedule.collective)) text += fmt::format(", root {}", schedule.root);
  text += fmt::format(", chunks {}, scratch {}", schedule.chunks, schedule.scratch_chunks);
  const char* joint = " like ";
  for (const ChunkRange& run : schedule.scratch_like) text += std::exchange(joint, " and ") + to_string(run);
  if (schedule.out_of_place_only) text += ", out of place only";
  text += '\n';
  for (std::uint32_t s = 0; s < schedule.steps.size(); ++s) text += "  " + to_string(schedule, s) + '\n';
  return text;
}

}  // namespace kolo::schedule
