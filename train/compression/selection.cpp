#include "compression/selection.hpp"

#include <algorithm>
#include <functional>

#include "compression/bits.hpp"

namespace kolo::train {
namespace {

constexpr int kBinShift = 16;  // a bin is an exponent and seven bits of mantissa

std::uint32_t magnitude_bits(float number) {
  // All that are not finite are equal.
  return std::min(bits_of(number) & 0x7FFFFFFFu, 0x7F800000u);
}

}  // namespace

void Selection::largest(std::span<const float> numbers, std::size_t count, std::uint64_t offset,
                        std::vector<std::uint64_t>& indices) {
  count = std::min(count, numbers.size());
  if (count == 0) return;
  histogram_.assign(std::size_t{1} << (31 - kBinShift), 0);
  for (const float number : numbers) ++histogram_[magnitude_bits(number) >> kBinShift];
  // The bin in which the last of them is, and how many of that bin are wanted.
  std::uint32_t bin = static_cast<std::uint32_t>(histogram_.size()) - 1;
  std::size_t wanted = count;
  for (; histogram_[bin] < wanted; --bin) wanted -= histogram_[bin];

  std::uint32_t threshold = bin << kBinShift;
  std::size_t ties = histogram_[bin];  // numbers at the threshold that are taken
  if (wanted < ties) {
    candidates_.clear();
    for (const float number : numbers) {
      if (const std::uint32_t bits = magnitude_bits(number); bits >> kBinShift == bin)
        candidates_.push_back(bits);
    }
    const auto last = candidates_.begin() + static_cast<std::ptrdiff_t>(wanted - 1);
    std::ranges::nth_element(candidates_, last, std::greater<>());
    threshold = *last;
    ties = wanted - static_cast<std::size_t>(std::count_if(
                        candidates_.begin(), last, [&](std::uint32_t bits) { return bits > threshold; }));
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      const std::uint32_t bits = magnitude_bits(numbers[i]);
      if (bits < threshold || (bits == threshold && ties == 0)) continue;
      if (bits == threshold) --ties;
      indices.push_back(offset + i);
    }
    return;
  }
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    if (magnitude_bits(numbers[i]) >= threshold) indices.push_back(offset + i);
  }
}

}  // namespace kolo::train
