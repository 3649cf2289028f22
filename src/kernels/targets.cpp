#include "kernels/targets.hpp"

#include <cstdint>

#include "hwy/targets.h"
#include "kernels/kernels.hpp"

namespace kolo::kernels {
namespace {

/// The bits of the targets in `set`, best first (Highway gives better ones lower bits).
std::vector<std::int64_t> split(std::int64_t set) {
  std::vector<std::int64_t> targets;
  for (; set != 0; set &= set - 1) targets.push_back(set & -set);
  return targets;
}

void allow(std::int64_t targets) {
  hwy::SetSupportedTargetsForTest(targets);
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
}

/// The targets that this CPU can run, independent of use_target(): read once, before anything can change it.
std::int64_t runnable() {
  static const std::int64_t targets = hwy::SupportedTargets() & HWY_TARGETS;
  return targets;
}

}  // namespace

std::vector<std::string> supported_targets() {
  std::vector<std::string> names;
  for (const std::int64_t target : split(runnable())) names.emplace_back(hwy::TargetName(target));
  return names;
}

std::string current_target() {
  const std::int64_t usable = hwy::SupportedTargets() & HWY_TARGETS;
  return hwy::TargetName(split(usable).front());
}

bool use_target(std::string_view name) {
  if (name.empty()) {
    allow(0);
    return true;
  }
  for (const std::int64_t target : split(runnable())) {
    if (name == hwy::TargetName(target)) {
      allow(target);
      return true;
    }
  }
  return false;
}

const char* target_name() {
  thread_local std::string text;
  text = current_target() + " (of";
  const auto compiled = split(HWY_TARGETS);
  for (auto target = compiled.rbegin(); target != compiled.rend(); ++target) {
    text += std::string(" ") + hwy::TargetName(*target);
  }
  text += ")";
  return text.c_str();
}

}  // namespace kolo::kernels
