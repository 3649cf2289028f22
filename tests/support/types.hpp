// All element types and all built-in operations, for tests of each of them.
#pragma once

#include <array>

#include "kolo/dtype.hpp"
#include "kolo/reduction.hpp"

namespace kolo::test {

template <typename Enum, int kCount>
constexpr std::array<Enum, kCount> first_of() {
  std::array<Enum, kCount> all{};
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<Enum>(i);
  return all;
}

inline constexpr auto kDTypes = first_of<DType, kDTypeCount>();
inline constexpr auto kReduceOps = first_of<ReduceOp, kReduceOpCount>();

}  // namespace kolo::test
