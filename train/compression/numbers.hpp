// Numbers in texts and in the state of hooks.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "kolo/train/hooks.hpp"

namespace kolo::train {

/// The shortest text that reads as the same number.
std::string text_of(double number);

/// A count in a hook's state, whose values are float32: exact up to 2^48.
void save_count(HookState& state, std::string_view name, std::uint64_t count);
/// Takes it out again. Throws InvalidArgumentError where it is missing.
std::uint64_t take_count(HookState& state, std::string_view name);
/// Takes out all whose names begin so.
HookState take_prefixed(HookState& state, std::string_view prefix);

}  // namespace kolo::train
