#include "precision/contributions.hpp"

#include <algorithm>
#include <cmath>
#include <functional>

#include "base/element.hpp"
#include "bench/noise.hpp"

namespace kolo::precision {
namespace {

/// A uniformly random rank for element `index`.
std::size_t rank_for(std::uint64_t index, std::uint64_t seed, std::size_t ranks) {
  const std::uint64_t key[] = {index, seed};
  return static_cast<std::size_t>(bench::hash_of(1, std::as_bytes(std::span(key))) >> 16) % ranks;
}

void add_large(Data data, std::vector<float>& numbers, std::uint64_t index, std::uint64_t seed) {
  if (data != Data::cancelling && data != Data::one_large) return;
  const std::size_t first = rank_for(index, 2 * seed, numbers.size());
  numbers[first] = kLarge;
  if (data == Data::one_large) return;
  const std::size_t distance = 1 + rank_for(index, 2 * seed + 1, numbers.size() - 1);
  numbers[(first + distance) % numbers.size()] = -kLarge;
}

void put_in_order(Order order, std::vector<float>& numbers) {
  const auto magnitude = [](float number) { return std::abs(number); };
  if (order == Order::ascending) std::ranges::stable_sort(numbers, std::less(), magnitude);
  if (order == Order::descending) std::ranges::stable_sort(numbers, std::greater(), magnitude);
}

}  // namespace

std::vector<std::vector<float>> Contributions::draw(std::uint64_t seed) const {
  const auto size = static_cast<std::size_t>(ranks);
  std::vector<std::vector<float>> result(size, std::vector<float>(count));
  std::vector<float> numbers(size);  // of one element
  for (std::uint64_t i = 0; i < count; ++i) {
    for (std::size_t rank = 0; rank < size; ++rank) {
      const float number = bench::normal_number(static_cast<int>(rank), seed, i);
      numbers[rank] = data == Data::positive ? std::abs(number) : number;
    }
    add_large(data, numbers, i, seed);
    put_in_order(order, numbers);
    for (std::size_t rank = 0; rank < size; ++rank) result[rank][i] = numbers[rank];
  }
  for (std::vector<float>& numbers_of_rank : result) round_to(element, numbers_of_rank);
  return result;
}

}  // namespace kolo::precision
