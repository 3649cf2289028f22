// Refuses wrong usage.
#pragma once

#include <fmt/format.h>

#include "kolo/error.hpp"
#include "kolo/trouble.hpp"

namespace kolo::cli {

/// The cause of usage errors that have no closer one (docs/trouble.md).
constexpr const char* kWrongUsage = "K901";

/// Throws InvalidArgumentError with the formatted text.
template <typename... Arguments>
[[noreturn]] void refuse(fmt::format_string<Arguments...> text, Arguments&&... arguments) {
  throw InvalidArgumentError(with_code(fmt::format(text, std::forward<Arguments>(arguments)...), kWrongUsage),
                             {});
}

}  // namespace kolo::cli
