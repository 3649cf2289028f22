// Data whose reductions are known exactly in every element type.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>

#include "base/element.hpp"
#include "kolo/kolo.hpp"
#include "support/types.hpp"

namespace kolo::test {

inline double load(const std::byte* at, DType dtype) {
  return with_type(
      dtype, [&]<typename T>(std::type_identity<T>) { return as_double(widen(load_element<T>(at, 0))); });
}

inline void store(std::byte* at, DType dtype, double value) {
  with_type(dtype, [&]<typename T>(std::type_identity<T>) { store_element(at, 0, narrow<T>(value)); });
}

/// Memory that a test reads and writes in one place and that calls get at another, if it is a device's.
struct ArrayMemory {
  ArrayMemory(std::shared_ptr<std::byte[]> own_)  // NOLINT: implicit on purpose
      : own(std::move(own_)), shown(own.get()) {}
  ArrayMemory(std::shared_ptr<std::byte[]> own_, std::byte* shown_, Device device_)
      : own(std::move(own_)), shown(shown_), device(device_) {}

  std::shared_ptr<std::byte[]> own;
  std::byte* shown;
  Device device = {};
};

/// Typed memory with a guard element on both sides that must not change.
class Array {
 public:
  Array(std::uint64_t count, DType dtype)
      : Array(count, dtype,
              ArrayMemory(std::shared_ptr<std::byte[]>(new std::byte[bytes_for(count, dtype)]))) {}
  /// In `memory`, of bytes_for(count, dtype), which need not be aligned.
  Array(std::uint64_t count, DType dtype, ArrayMemory memory)
      : count_(count), dtype_(dtype), memory_(std::move(memory)) {
    std::fill_n(memory_.own.get(), bytes_for(count, dtype), kGuard);
  }
  static std::size_t bytes_for(std::uint64_t count, DType dtype) { return (count + 2) * size_of(dtype); }

  Buffer buffer() { return part(0, count_); }
  Buffer part(std::uint64_t from, std::uint64_t count) {
    return {memory_.shown + (at(from) - memory_.own.get()), count, dtype_, memory_.device};
  }
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
      // As the type holds it: booleans have only 0 and 1.
      std::byte held[sizeof(std::max_align_t)];
      store(held, dtype_, static_cast<double>(value(i)));
      if ((*this)[i] != load(held, dtype_)) {
        throw std::runtime_error(what + ": element " + std::to_string(i) + " of " + std::to_string(count_) +
                                 " is " + std::to_string((*this)[i]) + ", not " +
                                 std::to_string(static_cast<double>(value(i))));
      }
    }
    for (std::size_t b = 0; b < size_of(dtype_); ++b) {
      if (memory_.own[b] != kGuard || at(count_)[b] != kGuard) {
        throw std::runtime_error(what + ": wrote outside of the buffer");
      }
    }
  }

 private:
  static constexpr std::byte kGuard{0x5a};

  std::byte* at(std::uint64_t i) const { return memory_.own.get() + (1 + i) * size_of(dtype_); }

  std::uint64_t count_;
  DType dtype_;
  ArrayMemory memory_;
};

/// The contribution of rank `rank` to element `i`: 0, 1 or 2 (1 or 2 for products). So even in 8 bits, sums
/// over 64 ranks and products over up to 6 ranks are exact.
inline double contribution(int rank, std::uint64_t i, ReduceOp op) {
  const auto mixed = static_cast<std::uint64_t>(rank) * 7 + i * 3 + i / 5;
  return op == ReduceOp::product ? static_cast<double>(1 + mixed % 2) : static_cast<double>(mixed % 3);
}

inline double reduced(int size, std::uint64_t i, ReduceOp op, DType dtype) {
  const auto of = [&](int rank) {
    const double number = contribution(rank, i, op);
    return dtype == DType::boolean ? std::min(number, 1.0) : number;
  };
  double value = of(0);
  for (int r = 1; r < size; ++r) {
    const double next = of(r);
    const auto a = static_cast<int>(value), b = static_cast<int>(next);
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
      case ReduceOp::bit_and:
        value = a & b;
        break;
      case ReduceOp::bit_or:
        value = a | b;
        break;
      case ReduceOp::bit_xor:
        value = a ^ b;
        break;
      case ReduceOp::custom:
        throw std::logic_error("custom");
    }
  }
  if (op != ReduceOp::average) return value;
  return with_type(dtype, [&]<typename T>(std::type_identity<T>) {
    using Real = decltype(std::real(widen(T())));
    return as_double(widen(narrow<T>(static_cast<Real>(value) / static_cast<Real>(size))));
  });
}

}  // namespace kolo::test
