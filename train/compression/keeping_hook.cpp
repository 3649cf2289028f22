#include "compression/keeping_hook.hpp"

#include <algorithm>
#include <optional>
#include <utility>

#include "kolo/error.hpp"

namespace kolo::train {
namespace {

constexpr std::string_view kSteps = "steps";
constexpr std::uint64_t kHalf = std::uint64_t{1} << 24;  // float32 holds integers up to here

void require_count(const std::string& parameter, std::size_t kept, std::size_t count) {
  if (kept == count) return;
  throw InvalidArgumentError("what is kept of the gradient of '" + parameter + "' has " +
                                 std::to_string(kept) + " elements, and the gradient has " +
                                 std::to_string(count),
                             {});
}

}  // namespace

Feedback::Values& Feedback::find(const std::string& parameter, std::size_t count) {
  const auto [at, is_new] = values_.try_emplace(parameter);
  if (is_new) at->second.kept.resize(count);
  require_count(parameter, at->second.kept.size(), count);
  return at->second;
}

void Feedback::check(std::span<const GradientPart> parameters) const {
  for (const GradientPart& part : parameters) {
    if (const auto found = values_.find(part.name); found != values_.end())
      require_count(part.name, found->second.kept.size(), part.count);
  }
}

std::span<const float> Feedback::kept(const std::string& parameter, std::size_t count) {
  return find(parameter, count).kept;
}

std::span<float> Feedback::pending(const std::string& parameter, std::size_t count) {
  Values& values = find(parameter, count);
  values.pending.resize(count);
  values.is_pending = true;
  return values.pending;
}

void KeepingHook::end_step(bool keep) {
  for (Feedback& kind : kinds_) {
    for (auto& [name, values] : kind.values_) {
      if (std::exchange(values.is_pending, false) && keep) std::swap(values.kept, values.pending);
    }
  }
  if (keep) ++steps_;
}

HookState KeepingHook::state() const {
  HookState state;
  for (std::size_t kind = 0; kind < kinds_.size(); ++kind) {
    for (const auto& [name, values] : kinds_[kind].values_)
      state.emplace(std::string(prefixes_[kind]) + name, values.kept);
  }
  // Values are float32: two hold a count up to 2^48.
  if (counts_steps_)
    state[std::string(kSteps)] = {static_cast<float>(steps_ % kHalf), static_cast<float>(steps_ / kHalf)};
  return state;
}

void KeepingHook::set_state(const HookState& state) {
  std::vector<Feedback> kinds(kinds_.size());
  std::optional<std::uint64_t> steps;
  if (!counts_steps_) steps = 0;
  for (const auto& [name, values] : state) {
    const auto prefix = std::ranges::find_if(
        prefixes_, [&name = name](std::string_view one) { return name.starts_with(one); });
    if (prefix != prefixes_.end()) {
      Feedback& kind = kinds[static_cast<std::size_t>(prefix - prefixes_.begin())];
      kind.values_[name.substr(prefix->size())].kept = values;
    } else if (counts_steps_ && name == kSteps && values.size() == 2) {
      steps = static_cast<std::uint64_t>(values[0]) + kHalf * static_cast<std::uint64_t>(values[1]);
    } else {
      throw InvalidArgumentError(
          "the state of a hook holds '" + name + "', which " + describe() + " does not know", {});
    }
  }
  if (!steps) throw InvalidArgumentError("the state of a hook holds no number of steps", {});
  std::ranges::move(kinds, kinds_.begin());  // hooks refer to its elements
  steps_ = *steps;
}

}  // namespace kolo::train
