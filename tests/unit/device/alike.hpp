// Compares a function as kolo declares it with that of a header.
#pragma once

#include <type_traits>

#include "device/function.hpp"

namespace kolo::device {

/// The same for a call: as long, and both pointers, both structures, or both numbers.
template <typename Ours, typename Theirs>
constexpr bool is_passed_alike =
    sizeof(Ours) == sizeof(Theirs) &&
    std::is_pointer_v<Ours> == std::is_pointer_v<Theirs>&& std::is_class_v<Ours> == std::is_class_v<Theirs>;

template <typename Codes, typename... Ours, typename Code, typename... Theirs>
constexpr bool is_alike(const Function<Codes, Ours...>*, Code (*)(Theirs...)) {
  if constexpr (sizeof...(Ours) != sizeof...(Theirs)) {
    return false;
  } else {
    return (is_passed_alike<Ours, Theirs> && ...);
  }
}

#define KOLO_EXPECT_ALIKE(table, ours, theirs) \
  static_assert(                               \
      is_alike(static_cast<decltype(table::ours)*>(nullptr), static_cast<decltype(&theirs)>(nullptr)))

}  // namespace kolo::device
