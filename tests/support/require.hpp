// require: throws in the body of a rank if a condition is false, which ends the rank.
#pragma once

#include <stdexcept>
#include <string>

namespace kolo::test {

inline void require(bool holds, const std::string& what) {
  if (!holds) throw std::runtime_error(what);
}

}  // namespace kolo::test
