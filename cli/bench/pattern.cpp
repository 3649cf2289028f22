#include "bench/pattern.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "base/element.hpp"

namespace kolo::bench {
namespace {

// The type holds every integer up to this magnitude; 0: arithmetic wraps around and is always exact.
std::int64_t exact_limit(DType dtype) {
  return is_floating(dtype) || is_complex(dtype) ? std::int64_t{1} << element_type(dtype).digits : 0;
}

std::uint32_t hash(std::uint64_t seed, std::uint64_t index) {
  std::uint64_t x = (index + 1) * 0x9E3779B97F4A7C15u ^ seed;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
  return static_cast<std::uint32_t>((x ^ (x >> 27)) >> 16);
}

std::uint64_t seed_of(int rank, std::uint64_t iteration) {
  const std::uint64_t x = (iteration * 1031 + static_cast<std::uint64_t>(rank) + 2) * 0xD6E8FEB86659FD93u;
  return (x ^ (x >> 32)) * 0xD6E8FEB86659FD93u;
}

// Uniform in [0, n).
std::int64_t below(std::uint32_t h, std::int64_t n) {
  return static_cast<std::int64_t>((static_cast<std::uint64_t>(h) * static_cast<std::uint64_t>(n)) >> 32);
}

// The largest value of an element: at most 3 for sums; for averages, the largest mean, at most 2.
std::int64_t largest_value(DType dtype, std::optional<ReduceOp> op, int ranks) {
  if (dtype == DType::boolean) return 1;
  const std::int64_t limit = exact_limit(dtype);
  if (!op) return limit == 0 ? (size_of(dtype) == 1 ? 127 : 30000) : std::min<std::int64_t>(limit, 30000);
  switch (*op) {
    case ReduceOp::sum:
      return limit == 0 ? 3 : std::min<std::int64_t>(3, limit / ranks);
    case ReduceOp::average:
      // No value is negative, so no partial sum exceeds ranks * mean.
      return std::min<std::int64_t>(2, limit / ranks);
    default:
      return limit == 0 ? 126 : std::min<std::int64_t>(126, limit);
  }
}

}  // namespace

std::string Pattern::limitation(DType dtype, std::optional<ReduceOp> op, int ranks) {
  if (op && !knows(dtype, *op)) return why_not(dtype, *op);
  if (largest_value(dtype, op, ranks) >= 1) return {};
  return fmt::format("a {} of {} over {} ranks cannot be verified exactly; choose a wider element type",
                     kolo::name_of(*op), kolo::name_of(dtype), ranks);
}

Pattern::Pattern(DType dtype, std::optional<ReduceOp> op, int ranks)
    : dtype_(dtype), op_(op), ranks_(ranks), largest_(largest_value(dtype, op, ranks)) {}

std::int64_t Pattern::value(int rank, std::uint64_t iteration, std::uint64_t index) const {
  index %= kPeriod;
  const auto own = [&](std::int64_t n) { return below(hash(seed_of(rank, iteration), index), n); };
  const auto common = [&](std::int64_t n) { return below(hash(seed_of(kReducedRank, iteration), index), n); };
  if (op_ == ReduceOp::product) {
    // `exponent` consecutive ranks hold a 2 (booleans: a 0), so the product is at most 2^6, which fits an
    // int8.
    const std::int64_t h = common(7 * ranks_);
    const std::int64_t exponent = h % 7, begin = h / 7;
    return (rank - begin + ranks_) % ranks_ < exponent ? (dtype_ == DType::boolean ? 0 : 2) : 1;
  }
  if (op_ == ReduceOp::average) {
    // Ranks r and N - 1 - r are equally far above and below the mean, so the mean is an integer.
    const std::int64_t mean = 1 + common(largest_);
    const int mirror = ranks_ - 1 - rank;
    if (mirror == rank) return mean;
    const std::int64_t away = below(hash(seed_of(std::min(rank, mirror), iteration), index), 2);
    return rank < mirror ? mean + away : mean - away;
  }
  return own(largest_ + 1);
}

std::int64_t Pattern::reduced(std::uint64_t iteration, std::uint64_t index, int ranks) const {
  if (ranks == 0) ranks = ranks_;
  std::int64_t result = value(0, iteration, index);
  for (int rank = 1; rank < ranks; ++rank) {
    const std::int64_t next = value(rank, iteration, index);
    switch (op_.value_or(ReduceOp::sum)) {
      case ReduceOp::product:
        result *= next;
        break;
      case ReduceOp::min:
        result = std::min(result, next);
        break;
      case ReduceOp::max:
        result = std::max(result, next);
        break;
      case ReduceOp::bit_and:
        result &= next;
        break;
      case ReduceOp::bit_or:
        result |= next;
        break;
      case ReduceOp::bit_xor:
        result ^= next;
        break;
      default:
        result += next;
    }
  }
  return op_ == ReduceOp::average ? result / ranks : result;
}

template <typename Value>
void Pattern::make_table(std::uint64_t count, std::uint64_t first, Value value_of) {
  table_count_ = std::min(count, kPeriod);
  const std::size_t element = size_of(dtype_);
  table_.resize(table_count_ * element);
  for (std::uint64_t i = 0; i < table_count_; ++i) {
    const std::int64_t v = value_of(first + i);
    with_type(dtype_,
              [&]<typename T>(std::type_identity<T>) { store_element(table_.data(), i, narrow<T>(v)); });
  }
}

void Pattern::fill(void* out, std::uint64_t count, int rank, std::uint64_t iteration, std::uint64_t first) {
  make_table(count, first, [&](std::uint64_t index) { return value(rank, iteration, index); });
  auto* at = static_cast<std::byte*>(out);
  const std::size_t element = size_of(dtype_);
  for (std::uint64_t done = 0; done < count; done += table_count_) {
    std::memcpy(at + done * element, table_.data(), std::min(table_count_, count - done) * element);
  }
}

std::uint64_t Pattern::compare(const void* got, std::uint64_t count) const {
  const auto* at = static_cast<const std::byte*>(got);
  const std::size_t element = size_of(dtype_);
  std::uint64_t wrong = 0;
  for (std::uint64_t done = 0; done < count; done += table_count_) {
    const std::uint64_t now = std::min(table_count_, count - done);
    const std::byte* block = at + done * element;
    if (std::memcmp(block, table_.data(), now * element) == 0) continue;
    for (std::uint64_t i = 0; i < now; ++i) {
      if (std::memcmp(block + i * element, table_.data() + i * element, element) != 0) ++wrong;
    }
  }
  return wrong;
}

std::uint64_t Pattern::count_wrong(const void* got, std::uint64_t count, int rank, std::uint64_t iteration,
                                   std::uint64_t first) {
  make_table(count, first, [&](std::uint64_t index) { return value(rank, iteration, index); });
  return compare(got, count);
}

std::uint64_t Pattern::count_wrong_reduced(const void* got, std::uint64_t count, std::uint64_t iteration,
                                           std::uint64_t first, int ranks) {
  make_table(count, first, [&](std::uint64_t index) { return reduced(iteration, index, ranks); });
  return compare(got, count);
}

}  // namespace kolo::bench
