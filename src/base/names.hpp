// Converts between the values of an enumeration and their names.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

namespace kolo {

/// The name of a value; "unknown" if it has none.
template <typename Enum>
constexpr std::string_view name_among(std::span<const std::string_view> names, Enum value) noexcept {
  const auto index = static_cast<std::size_t>(value);
  return index < names.size() ? names[index] : "unknown";
}

/// The inverse. Returns false, and does not change `value`, if no value has this name.
template <typename Enum>
constexpr bool value_among(std::span<const std::string_view> names, std::string_view name,
                           Enum& value) noexcept {
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (names[i] != name) continue;
    value = static_cast<Enum>(i);
    return true;
  }
  return false;
}

}  // namespace kolo
