#include "compression/selection.hpp"

#include <algorithm>
#include <functional>

#include "compression/bits.hpp"

namespace kolo::train {
namespace {

constexpr std::size_t kFew = 512;  // clearing and searching the histogram takes longer than sorting them

std::uint32_t magnitude_bits(float number) {
  // All that are not finite are equal.
  return std::min(bits_of(number) & 0x7FFFFFFFu, 0x7F800000u);
}

/// Appends the indices of the numbers of `lowest` or more, each plus `offset`.
void append_from(std::uint32_t lowest, std::span<const float> numbers, std::uint64_t offset,
                 std::vector<std::uint64_t>& indices) {
  constexpr std::size_t kBlock = 32;
  std::size_t filled = indices.size();
  for (std::size_t begin = 0; begin < numbers.size(); begin += kBlock) {
    const auto block = numbers.subspan(begin, std::min(kBlock, numbers.size() - begin));
    std::uint32_t most = 0;
    for (const float number : block) most = std::max(most, magnitude_bits(number));
    if (most < lowest) continue;
    indices.resize(filled + block.size());
    for (std::size_t i = 0; i < block.size(); ++i) {
      // Without a branch, which would be guessed wrong at each number that is taken.
      indices[filled] = offset + begin + i;
      filled += magnitude_bits(block[i]) >= lowest ? 1 : 0;
    }
    indices.resize(filled);
  }
}

}  // namespace

std::uint32_t Selection::last_bin(std::span<const float> numbers, std::size_t count) {
  for (auto& counts : histogram_) counts.fill(0);
  std::size_t i = 0;
  for (; i + 4 <= numbers.size(); i += 4) {
    for (std::size_t j = 0; j < 4; ++j) ++histogram_[j][magnitude_bits(numbers[i + j]) >> kBinShift];
  }
  for (; i < numbers.size(); ++i) ++histogram_[0][magnitude_bits(numbers[i]) >> kBinShift];
  auto bin = static_cast<std::uint32_t>(histogram_[0].size());
  for (std::size_t found = 0; found < count;) {
    --bin;
    for (const auto& counts : histogram_) found += counts[bin];
  }
  return bin;
}

void Selection::largest(std::span<const float> numbers, std::size_t count, std::uint64_t offset,
                        std::vector<std::uint64_t>& indices) {
  count = std::min(count, numbers.size());
  if (count == 0) return;
  std::uint32_t lowest = 0, next_bin = 0x7FFFFFFFu;
  if (numbers.size() > kFew) {
    lowest = last_bin(numbers, count) << kBinShift;
    next_bin = lowest + (1u << kBinShift);
  }
  const auto first = static_cast<std::ptrdiff_t>(indices.size());
  append_from(std::max(lowest, 1u), numbers, offset, indices);
  const std::size_t found = indices.size() - static_cast<std::size_t>(first);
  if (found <= count) return;

  candidates_.clear();
  const auto bits_at = [&](std::uint64_t index) { return magnitude_bits(numbers[index - offset]); };
  for (auto at = indices.begin() + first; at != indices.end(); ++at) {
    if (const std::uint32_t bits = bits_at(*at); bits < next_bin) candidates_.push_back(bits);
  }
  const std::size_t wanted = count - (found - candidates_.size());
  const auto last = candidates_.begin() + static_cast<std::ptrdiff_t>(wanted - 1);
  std::ranges::nth_element(candidates_, last, std::greater<>());
  const std::uint32_t threshold = *last;
  auto ties =
      1 + std::count(candidates_.begin(), last, threshold);  // numbers at the threshold that are taken
  auto to = indices.begin() + first;
  for (auto at = to; at != indices.end(); ++at) {
    const std::uint32_t bits = bits_at(*at);
    if (bits > threshold || (bits == threshold && ties-- > 0)) *to++ = *at;
  }
  indices.erase(to, indices.end());
}

}  // namespace kolo::train
