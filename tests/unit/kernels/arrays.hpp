// Arrays for kernel tests: raw bytes at any misalignment, full of awkward values, and how to compare them.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "base/element.hpp"
#include "support/types.hpp"

namespace kolo::testing {

/// `bytes` writable bytes that start `offset` bytes after an address divisible by 64, between guards that
/// detect writes outside.
class Array {
 public:
  Array(std::size_t bytes, std::size_t offset) : bytes_(bytes), storage_(bytes + offset + 3 * kGuard, kMark) {
    const auto base = reinterpret_cast<std::uintptr_t>(storage_.data()) + kGuard;
    begin_ = static_cast<std::size_t>((base + 63) / 64 * 64 - base) + kGuard + offset;
  }

  void* data() { return storage_.data() + begin_; }
  const void* data() const { return storage_.data() + begin_; }
  std::size_t bytes() const { return bytes_; }

  bool guards_intact() const {
    for (std::size_t i = 0; i < storage_.size(); ++i) {
      const bool inside = i >= begin_ && i < begin_ + bytes_;
      if (!inside && storage_[i] != kMark) return false;
    }
    return true;
  }

 private:
  static constexpr std::size_t kGuard = 64;
  static constexpr std::uint8_t kMark = 0xA5;
  std::size_t bytes_;
  std::size_t begin_;
  std::vector<std::uint8_t> storage_;
};

/// The value of element i, for the floating types.
inline double floating_at(DType dtype, const void* array, std::size_t i) {
  return with_type(dtype, [&]<typename T>(std::type_identity<T>) {
    return test::as_double(widen(load_element<T>(array, i)));
  });
}

/// Random bits, so every class of number occurs (subnormal, huge, NaN), mixed with limit values: zeros, one,
/// infinities, NaN, the largest, the smallest. Floats also have many values of ordinary size.
inline void fill(DType dtype, void* array, std::size_t count, std::uint64_t seed) {
  if (is_complex(dtype)) return fill(test::part_of(dtype), array, 2 * count, seed);
  std::mt19937_64 random(seed);
  const std::size_t size = size_of(dtype);
  auto* at = static_cast<std::uint8_t*>(array);
  for (std::size_t i = 0; i < count; ++i, at += size) {
    std::uint64_t bits = random();
    const unsigned kind = static_cast<unsigned>(random() % 8);
    if (is_floating(dtype) && kind < 4) {
      const double ordinary = std::ldexp(static_cast<double>(static_cast<std::int64_t>(bits)), -62);
      with_type(dtype, [&]<typename T>(std::type_identity<T>) { store_element(at, 0, narrow<T>(ordinary)); });
      continue;
    }
    if (kind == 4) {
      // Sign and exponent bits all set or all clear, few others: infinities, NaN, subnormals, 0, -1, the
      // limits.
      const std::uint64_t patterns[] = {0, ~0ull, 1, 1ull << (8 * size - 1), ~0ull >> (65 - 8 * size)};
      bits = patterns[random() % 5];
      if (is_floating(dtype) && random() % 2) {
        const int mantissa = element_type(dtype).digits - 1;
        bits = bits >> mantissa << mantissa;  // ... ~0 becomes minus infinity, and so on
      }
    }
    if (dtype == DType::boolean) bits &= 1;
    std::memcpy(at, &bits, size);  // little-endian: the low bytes
  }
}

/// Bit for bit, except that any NaN equals any NaN.
inline ::testing::AssertionResult same(DType dtype, const void* got, const void* wanted, std::size_t count) {
  if (is_complex(dtype)) return same(test::part_of(dtype), got, wanted, 2 * count);
  const std::size_t size = size_of(dtype);
  for (std::size_t i = 0; i < count; ++i) {
    const auto* a = static_cast<const std::uint8_t*>(got) + i * size;
    const auto* b = static_cast<const std::uint8_t*>(wanted) + i * size;
    if (std::memcmp(a, b, size) == 0) continue;
    if (is_floating(dtype)) {
      const double x = floating_at(dtype, got, i);
      const double y = floating_at(dtype, wanted, i);
      if (std::isnan(x) && std::isnan(y)) continue;
      return ::testing::AssertionFailure() << "element " << i << " is " << x << ", not " << y;
    }
    std::uint64_t x = 0;
    std::uint64_t y = 0;
    std::memcpy(&x, a, size);
    std::memcpy(&y, b, size);
    return ::testing::AssertionFailure()
           << "element " << i << " is " << x << ", not " << y << " (as unsigned)";
  }
  return ::testing::AssertionSuccess();
}

}  // namespace kolo::testing
