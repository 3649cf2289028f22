// FreeRanges: which parts of a region are free.
#pragma once

#include <cstddef>
#include <map>
#include <optional>

namespace kolo::transport::shm {

/// First fit; adjacent free ranges are merged. Not thread-safe.
class FreeRanges {
 public:
  explicit FreeRanges(std::size_t size) : size_(size) {
    if (size != 0) free_[0] = size;
  }

  /// The first place for `bytes` (not 0) whose offset is `phase` modulo `alignment`; phase < alignment.
  std::optional<std::size_t> take(std::size_t bytes, std::size_t alignment, std::size_t phase);
  /// Takes exactly a range that take() returned.
  void give_back(std::size_t offset, std::size_t bytes);
  bool untouched() const { return free_.size() == 1 && free_.begin()->second == size_; }

 private:
  std::size_t size_;
  std::map<std::size_t, std::size_t> free_;  ///< offset to length; never two that touch
};

}  // namespace kolo::transport::shm
