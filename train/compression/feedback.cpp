#include "compression/feedback.hpp"

#include <utility>

#include "kolo/error.hpp"

namespace kolo::train {

namespace {

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

void Feedback::end_step(bool keep) {
  for (auto& [name, values] : values_) {
    if (std::exchange(values.is_pending, false) && keep) std::swap(values.kept, values.pending);
  }
}

void Feedback::save(HookState& state, std::string_view prefix) const {
  for (const auto& [name, values] : values_) state.emplace(std::string(prefix) + name, values.kept);
}

void Feedback::load(const HookState& state, std::string_view prefix) {
  std::map<std::string, Values> loaded;
  for (const auto& [name, kept] : state) {
    if (!name.starts_with(prefix))
      throw InvalidArgumentError("the state of a hook holds '" + name + "', which this hook does not know",
                                 {});
    loaded[name.substr(prefix.size())].kept = kept;
  }
  values_ = std::move(loaded);
}

}  // namespace kolo::train
