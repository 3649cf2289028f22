// Private memory, as in a program that does not allocate from kolo.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <memory>
#include <new>

namespace kolo::bench {

/// Page-aligned memory that grows on demand; growing loses the contents. A value that owns the memory.
class PlainMemory {
 public:
  std::byte* at_least(std::size_t bytes) {
    if (bytes > size_) {
      data_.reset();
      size_ = (bytes + kPage - 1) / kPage * kPage;
      data_.reset(static_cast<std::byte*>(std::aligned_alloc(kPage, size_)));
      if (!data_) throw std::bad_alloc();
    }
    return data_.get();
  }

 private:
  static constexpr std::size_t kPage = 4096;
  struct Free {
    void operator()(std::byte* data) const { std::free(data); }
  };
  std::unique_ptr<std::byte, Free> data_;
  std::size_t size_ = 0;
};

}  // namespace kolo::bench
