// Waits for several operations that borrow memory.
#pragma once

#include <algorithm>
#include <chrono>
#include <exception>
#include <vector>

#include "kolo/work.hpp"

namespace kolo::train {

/// Waits for all operations, also after an error, because each of them borrows memory, and empties the list.
/// Then throws the first error, or returns what the longest operation took.
inline std::chrono::nanoseconds wait_all(std::vector<Work>& works) {
  std::exception_ptr error;
  std::chrono::nanoseconds longest{0};
  for (const Work& work : works) {
    try {
      work.wait();
      longest = std::max(longest, work.duration());
    } catch (...) {
      if (!error) error = std::current_exception();
    }
  }
  works.clear();
  if (error) std::rethrow_exception(error);
  return longest;
}

}  // namespace kolo::train
