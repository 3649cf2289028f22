// Counts: how many elements each rank's part has.
#pragma once

#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <ranges>
#include <span>
#include <vector>

namespace kolo {

/// A range of numbers: vector<int>, array<std::uint64_t, 4>, a view; not of characters, not of bool.
template <typename R>
concept IntegerRange = std::ranges::input_range<R> && std::integral<std::ranges::range_value_t<R>> &&
                       !std::same_as<std::ranges::range_value_t<R>, bool> &&
                       !std::same_as<std::ranges::range_value_t<R>, char>;

/// Element counts per rank, for collectives in which ranks hold unequal parts; empty: equal parts. Converts
/// implicitly from any range of integers, and from `{3, 1}`. Contiguous std::uint64_t that are no temporary
/// are borrowed, all others are copied. A call that gets a negative count throws InvalidArgumentError. The
/// call reads the counts before it returns, also an asynchronous one.
class Counts {
 public:
  /// Equal parts.
  Counts() = default;
  /// The numbers of the range, one for each rank.
  template <IntegerRange R>
  Counts(R&& range) {  // NOLINT: implicit on purpose
    using Number = std::ranges::range_value_t<R>;
    if constexpr (std::ranges::contiguous_range<R> && std::ranges::sized_range<R> &&
                  std::ranges::borrowed_range<R> && std::same_as<Number, std::uint64_t>) {
      borrowed_ = {std::ranges::data(range), std::ranges::size(range)};
    } else {
      for (const Number number : range) own_.push_back(static_cast<std::uint64_t>(number));
    }
  }
  /// The numbers, one for each rank.
  template <std::integral Number>
  Counts(std::initializer_list<Number> numbers) {
    for (const Number number : numbers) own_.push_back(static_cast<std::uint64_t>(number));
  }

  /// One number for each rank, or none. A negative number is here modulo 2^64.
  operator std::span<const std::uint64_t>() const noexcept {  // NOLINT: implicit on purpose
    return own_.empty() ? borrowed_ : std::span<const std::uint64_t>(own_);
  }

 private:
  std::span<const std::uint64_t> borrowed_;
  std::vector<std::uint64_t> own_;
};

}  // namespace kolo
