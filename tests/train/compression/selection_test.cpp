// The largest numbers, against sorting.
#include "compression/selection.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "train/compression/replicas.hpp"

namespace kolo::train {
namespace {

std::vector<std::uint64_t> sorted_largest(const std::vector<float>& numbers, std::size_t count) {
  std::vector<std::uint64_t> order(numbers.size());
  std::iota(order.begin(), order.end(), std::uint64_t{0});
  const auto key = [&](std::uint64_t i) {
    return std::isfinite(numbers[i]) ? std::abs(numbers[i]) : INFINITY;
  };
  std::ranges::stable_sort(order, [&](std::uint64_t a, std::uint64_t b) { return key(a) > key(b); });
  order.resize(std::min(count, order.size()));
  std::erase_if(order, [&](std::uint64_t i) { return numbers[i] == 0; });
  std::ranges::sort(order);
  return order;
}

TEST(Selection, IsThatOfSorting) {
  Selection selection;
  for (const std::size_t size : {1u, 2u, 100u, 513u, 5000u}) {
    for (int kind = 0; kind < 4; ++kind) {
      std::vector<float> numbers(size);
      for (std::size_t i = 0; i < size; ++i) {
        numbers[i] = test::gradient(kind, 0, 0, i);
        if (kind == 1) numbers[i] = std::round(numbers[i] * 4);  // many equal ones
        if (kind == 2) numbers[i] = 1 + numbers[i] * 1e-4f;      // all in one bin
        if (kind == 3 && i % 7 == 0) numbers[i] = i % 14 == 0 ? NAN : -INFINITY;
      }
      for (const std::size_t count :
           {std::size_t{0}, std::size_t{1}, size / 100, size / 3, size - 1, size, size + 5}) {
        std::vector<std::uint64_t> indices;
        selection.largest(numbers, count, 0, indices);
        ASSERT_EQ(indices, sorted_largest(numbers, count)) << size << " kind " << kind << " count " << count;
      }
    }
  }
}

TEST(Selection, AppendsWithAnOffset) {
  Selection selection;
  std::vector<std::uint64_t> indices{3};
  selection.largest(std::vector<float>{1, 5, -9}, 2, 10, indices);
  EXPECT_EQ(indices, (std::vector<std::uint64_t>{3, 11, 12}));
}

}  // namespace
}  // namespace kolo::train
