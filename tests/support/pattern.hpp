// Data whose reductions are known exactly in every element type.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>

#include "kolo/kolo.hpp"

namespace kolo::test {

inline double load(const std::byte* at, DType dtype) {
  const auto as = [&]<typename T>(T value) {
    std::copy(at, at + sizeof value, reinterpret_cast<std::byte*>(&value));
    return value;
  };
  switch (dtype) {
    case DType::float32:
      return as(float{});
    case DType::float64:
      return as(double{});
    case DType::float16:
      return to_float(as(Float16{}));
    case DType::bfloat16:
      return to_float(as(BFloat16{}));
    case DType::int8:
      return as(std::int8_t{});
    case DType::int16:
      return as(std::int16_t{});
    case DType::int32:
      return as(std::int32_t{});
    case DType::int64:
      return static_cast<double>(as(std::int64_t{}));
    case DType::uint8:
      return as(std::uint8_t{});
    case DType::uint16:
      return as(std::uint16_t{});
    case DType::uint32:
      return as(std::uint32_t{});
    case DType::uint64:
      return static_cast<double>(as(std::uint64_t{}));
  }
  return 0;
}

inline void store(std::byte* at, DType dtype, double value) {
  const auto as = [&]<typename T>(T typed) {
    std::copy(reinterpret_cast<const std::byte*>(&typed),
              reinterpret_cast<const std::byte*>(&typed) + sizeof typed, at);
  };
  switch (dtype) {
    case DType::float32:
      return as(static_cast<float>(value));
    case DType::float64:
      return as(value);
    case DType::float16:
      return as(to_float16(static_cast<float>(value)));
    case DType::bfloat16:
      return as(to_bfloat16(static_cast<float>(value)));
    case DType::int8:
      return as(static_cast<std::int8_t>(value));
    case DType::int16:
      return as(static_cast<std::int16_t>(value));
    case DType::int32:
      return as(static_cast<std::int32_t>(value));
    case DType::int64:
      return as(static_cast<std::int64_t>(value));
    case DType::uint8:
      return as(static_cast<std::uint8_t>(value));
    case DType::uint16:
      return as(static_cast<std::uint16_t>(value));
    case DType::uint32:
      return as(static_cast<std::uint32_t>(value));
    case DType::uint64:
      return as(static_cast<std::uint64_t>(value));
  }
}

/// Typed memory with a guard element on both sides that must not change.
class Array {
 public:
  Array(std::uint64_t count, DType dtype)
      : Array(count, dtype, std::shared_ptr<std::byte[]>(new std::byte[bytes_for(count, dtype)])) {}
  /// In `memory`, of bytes_for(count, dtype), which need not be aligned.
  Array(std::uint64_t count, DType dtype, std::shared_ptr<std::byte[]> memory)
      : count_(count), dtype_(dtype), memory_(std::move(memory)) {
    std::fill_n(memory_.get(), bytes_for(count, dtype), kGuard);
  }
  static std::size_t bytes_for(std::uint64_t count, DType dtype) { return (count + 2) * size_of(dtype); }

  Buffer buffer() { return part(0, count_); }
  Buffer part(std::uint64_t from, std::uint64_t count) { return {at(from), count, dtype_}; }
  std::uint64_t count() const { return count_; }
  double operator[](std::uint64_t i) const { return load(at(i), dtype_); }
  void set(std::uint64_t i, double value) { store(at(i), dtype_, value); }
  template <typename Function>
  void fill(Function value) {
    for (std::uint64_t i = 0; i < count_; ++i) set(i, value(i));
  }
  /// Throws if an element or a guard differs.
  template <typename Function>
  void expect(const std::string& what, Function value) const {
    for (std::uint64_t i = 0; i < count_; ++i) {
      if ((*this)[i] != static_cast<double>(value(i))) {
        throw std::runtime_error(what + ": element " + std::to_string(i) + " of " + std::to_string(count_) +
                                 " is " + std::to_string((*this)[i]) + ", not " +
                                 std::to_string(static_cast<double>(value(i))));
      }
    }
    for (std::size_t b = 0; b < size_of(dtype_); ++b) {
      if (memory_[b] != kGuard || at(count_)[b] != kGuard) {
        throw std::runtime_error(what + ": wrote outside of the buffer");
      }
    }
  }

 private:
  static constexpr std::byte kGuard{0x5a};

  std::byte* at(std::uint64_t i) const { return memory_.get() + (1 + i) * size_of(dtype_); }

  std::uint64_t count_;
  DType dtype_;
  std::shared_ptr<std::byte[]> memory_;
};

/// The contribution of rank `rank` to element `i`: 0, 1 or 2 (1 or 2 for products). So even in 8 bits, sums
/// over 64 ranks and products over up to 6 ranks are exact.
inline double contribution(int rank, std::uint64_t i, ReduceOp op) {
  const auto mixed = static_cast<std::uint64_t>(rank) * 7 + i * 3 + i / 5;
  return op == ReduceOp::product ? static_cast<double>(1 + mixed % 2) : static_cast<double>(mixed % 3);
}

inline double reduced(int size, std::uint64_t i, ReduceOp op, DType dtype) {
  double value = contribution(0, i, op);
  for (int r = 1; r < size; ++r) {
    const double next = contribution(r, i, op);
    switch (op) {
      case ReduceOp::sum:
      case ReduceOp::average:
        value += next;
        break;
      case ReduceOp::product:
        value *= next;
        break;
      case ReduceOp::min:
        value = std::min(value, next);
        break;
      case ReduceOp::max:
        value = std::max(value, next);
        break;
      case ReduceOp::custom:
        throw std::logic_error("custom");
    }
  }
  if (op == ReduceOp::average) {
    switch (dtype) {
      case DType::float32:
        return static_cast<float>(value) / static_cast<float>(size);
      case DType::float64:
        return value / size;
      case DType::float16:
        return to_float(to_float16(static_cast<float>(value) / static_cast<float>(size)));
      case DType::bfloat16:
        return to_float(to_bfloat16(static_cast<float>(value) / static_cast<float>(size)));
      default:
        return std::trunc(value / size);
    }
  }
  return value;
}

}  // namespace kolo::test
