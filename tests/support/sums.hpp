// expect_it_works: sums over a communicator.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kolo/kolo.hpp"
#include "support/require.hpp"

namespace kolo::test {

/// Checks sums of several sizes over the communicator.
inline void expect_it_works(Communicator& c) {
  for (const std::size_t count : {std::size_t{1}, std::size_t{1000}, std::size_t{300'001}}) {
    std::vector<std::int64_t> data(count);
    for (std::size_t i = 0; i < count; ++i) data[i] = static_cast<std::int64_t>(i) + c.rank();
    c.all_reduce(data);
    const std::int64_t n = c.size();
    for (std::size_t i = 0; i < count; ++i) {
      require(data[i] == n * static_cast<std::int64_t>(i) + n * (n - 1) / 2, "a wrong sum");
    }
  }
}

}  // namespace kolo::test
