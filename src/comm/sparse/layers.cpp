#include "comm/sparse/layers.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdint>

namespace kolo::comm::sparse {

std::vector<int> default_degrees(int ranks) {
  constexpr int kMost = 8;
  std::vector<int> degrees;
  while (ranks > 1) {
    int degree = std::min(ranks, kMost);
    while (ranks % degree != 0) --degree;
    if (degree == 1) degree = ranks;  // no divisor up to 8; rarely more than a prime
    degrees.push_back(degree);
    ranks /= degree;
  }
  std::sort(degrees.rbegin(), degrees.rend());
  return degrees;
}

std::string degrees_fault(const std::vector<int>& degrees, int ranks) {
  std::int64_t product = 1;
  for (const int degree : degrees) {
    if (degree < 2) return fmt::format("degree {} is less than 2", degree);
    product *= degree;
    if (product > ranks) break;
  }
  if (product == ranks) return {};
  return fmt::format("degrees {} do not multiply to {} ranks", fmt::join(degrees, " x "), ranks);
}

std::vector<Place> places(int rank, const std::vector<int>& degrees) {
  std::vector<Place> found;
  int stride = 1;
  for (const int degree : degrees) {
    const int digit = rank / stride % degree;
    found.push_back({digit, rank - digit * stride});
    stride *= degree;
  }
  return found;
}

}  // namespace kolo::comm::sparse
