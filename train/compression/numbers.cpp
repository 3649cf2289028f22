#include "compression/numbers.hpp"

#include <charconv>
#include <iterator>

#include "kolo/error.hpp"

namespace kolo::train {
namespace {

constexpr std::uint64_t kHalf = std::uint64_t{1} << 24;  // float32 holds integers up to here

}  // namespace

std::string text_of(double number) {
  char text[32];
  return {text, std::to_chars(std::begin(text), std::end(text), number).ptr};
}

void save_count(HookState& state, std::string_view name, std::uint64_t count) {
  state[std::string(name)] = {static_cast<float>(count % kHalf), static_cast<float>(count / kHalf)};
}

std::uint64_t take_count(HookState& state, std::string_view name) {
  const auto found = state.find(std::string(name));
  if (found == state.end() || found->second.size() != 2)
    throw InvalidArgumentError("the state of a hook holds no '" + std::string(name) + "'", {});
  const auto halves = found->second;
  state.erase(found);
  return static_cast<std::uint64_t>(halves[0]) + kHalf * static_cast<std::uint64_t>(halves[1]);
}

HookState take_prefixed(HookState& state, std::string_view prefix) {
  HookState taken;
  for (auto at = state.begin(); at != state.end();) {
    const auto next = std::next(at);
    if (at->first.starts_with(prefix)) taken.insert(state.extract(at));
    at = next;
  }
  return taken;
}

}  // namespace kolo::train
