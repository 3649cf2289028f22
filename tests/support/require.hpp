// require: for the body of a rank, where what does not hold must end the rank.
#pragma once

#include <stdexcept>
#include <string>

namespace kolo::test {

inline void require(bool holds, const std::string& what) {
  if (!holds) throw std::runtime_error(what);
}

}  // namespace kolo::test
