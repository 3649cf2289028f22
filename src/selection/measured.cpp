#include "selection/measured.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace kolo::selection {
namespace {

/// Exponent of 2.
constexpr double kFarthest = 4;

double log_of(std::uint64_t bytes) {
  return std::log2(static_cast<double>(std::max<std::uint64_t>(bytes, 1)));
}

double fastest(const TuningTable::Times& times) {
  return std::ranges::min_element(times, {}, [](const auto& time) { return time.second; })->second;
}

}  // namespace

Measured::Measured(const TuningTable::BySize* by_size, std::uint64_t bytes) : size_(log_of(bytes)) {
  if (by_size == nullptr) return;
  for (const auto& [size, times] : *by_size) {
    if (std::abs(log_of(size) - size_) <= kFarthest) around_.push_back({log_of(size), &times});
  }
  const auto above = std::ranges::find_if(around_, [&](const Point& p) { return p.size >= size_; });
  const bool is_exact = above != around_.end() && above->size == size_;
  if (above != around_.begin() && !is_exact) next_to_it_.push_back(*(above - 1));
  if (above != around_.end()) next_to_it_.push_back(*above);
}

std::optional<double> Measured::seconds(const std::string& algorithm) const {
  std::vector<double> times;
  for (const Point& point : next_to_it_) {
    const auto found = point.times->find(algorithm);
    if (found == point.times->end()) return std::nullopt;
    times.push_back(found->second);
  }
  if (times.empty()) return std::nullopt;
  if (times.size() == 1) return times[0];
  const double way = (size_ - next_to_it_[0].size) / (next_to_it_[1].size - next_to_it_[0].size);
  return times[0] * std::pow(times[1] / times[0], way);
}

double Measured::around(const std::string& algorithm) const {
  double sum = 0;
  int sizes = 0;
  for (const Point& point : around_) {
    const auto found = point.times->find(algorithm);
    if (found == point.times->end()) continue;
    sum += std::log(found->second / fastest(*point.times));
    ++sizes;
  }
  return sizes == 0 ? std::numeric_limits<double>::infinity() : std::exp(sum / sizes);
}

}  // namespace kolo::selection
