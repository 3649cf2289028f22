// Refuses wrong usage.
#pragma once

#include <fmt/format.h>

#include "kolo/error.hpp"

namespace kolo::cli {

/// Throws InvalidArgumentError with the formatted text.
template <typename... Arguments>
[[noreturn]] void refuse(fmt::format_string<Arguments...> text, Arguments&&... arguments) {
  throw InvalidArgumentError(fmt::format(text, std::forward<Arguments>(arguments)...), {});
}

}  // namespace kolo::cli
