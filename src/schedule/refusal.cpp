#include "schedule/refusal.hpp"

#include <fmt/format.h>

#include "schedule/printer.hpp"

namespace kolo::schedule {
namespace {

Status refusal(const Schedule& schedule, int step, const std::string& why) {
  ErrorContext context;
  context.peer = schedule.rank;
  context.collective = name_of(schedule.collective);
  context.step = step;
  return Status(Code::invalid_argument,
                fmt::format("{}: rank {}{}", name_of(schedule.collective), schedule.rank, why), context);
}

}  // namespace

Status refuse(const Schedule& schedule, std::uint32_t step, const std::string& why) {
  return refusal(schedule, static_cast<int>(step), fmt::format(", {}: {}", to_string(schedule, step), why));
}

Status refuse(const Schedule& schedule, const std::string& why) {
  return refusal(schedule, -1, ": " + why);
}

}  // namespace kolo::schedule
