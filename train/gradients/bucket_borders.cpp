#include "gradients/bucket_borders.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <numeric>

namespace kolo::train {
namespace {

/// Adds gradients up to the price of a group.
class Group {
 public:
  explicit Group(const BucketPrice& price) : price_(price) {}

  void add(const ReadyGradient& gradient) {
    bool& is_present = types_[static_cast<std::size_t>(gradient.dtype)];
    if (!is_present) seconds_ += price_.latency;
    is_present = true;
    seconds_ += price_.per_byte * static_cast<double>(gradient.bytes);
  }
  double seconds() const noexcept { return seconds_; }

 private:
  const BucketPrice& price_;
  std::array<bool, kDTypeCount> types_{};
  double seconds_ = 0;
};

/// Ends of pieces: each gradient alone, or runs of them of at most total / most bytes (or one larger one)
/// where there are more than `most`; half as many fit at least.
std::vector<std::size_t> pieces_of(std::span<const ReadyGradient> gradients, std::size_t most) {
  std::vector<std::size_t> ends;
  const bool must_merge = gradients.size() > most;
  std::uint64_t total = 0;
  for (const ReadyGradient& gradient : gradients) total += gradient.bytes;
  const std::uint64_t limit = must_merge ? 2 * total / most + 1 : 0;
  std::uint64_t bytes = 0;
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    if (i > 0 && bytes + gradients[i].bytes > limit) {
      ends.push_back(i);
      bytes = 0;
    }
    bytes += gradients[i].bytes;
  }
  if (!gradients.empty()) ends.push_back(gradients.size());
  return ends;
}

}  // namespace

double end_of(std::span<const ReadyGradient> gradients, std::span<const std::size_t> ends,
              const BucketPrice& price) {
  double end = 0;
  std::size_t i = 0;
  for (const std::size_t border : ends) {
    Group group(price);
    double ready = 0;
    for (; i < border; ++i) {
      group.add(gradients[i]);
      ready = std::max(ready, gradients[i].ready);
    }
    end = std::max(end, ready) + group.seconds();
  }
  return end;
}

Borders find_borders(std::span<const ReadyGradient> gradients, const BucketPrice& price,
                     const GroupLimits& limits, double slack, std::size_t most_pieces) {
  constexpr double kNever = std::numeric_limits<double>::infinity();
  const std::vector<std::size_t> pieces = pieces_of(gradients, most_pieces);
  const std::size_t n = pieces.size();
  if (n == 0) return {};

  // Of the group of pieces i to j - 1, at i * (n + 1) + j.
  std::vector<double> seconds((n + 1) * (n + 1), kNever);
  std::vector<double> ready(n + 1, 0);         // of the first j pieces
  std::vector<std::uint64_t> bytes(n + 1, 0);  // likewise
  for (std::size_t j = 1, gradient = 0; j <= n; ++j) {
    ready[j] = ready[j - 1];
    bytes[j] = bytes[j - 1];
    for (; gradient < pieces[j - 1]; ++gradient) {
      ready[j] = std::max(ready[j], gradients[gradient].ready);
      bytes[j] += gradients[gradient].bytes;
    }
  }
  for (std::size_t i = 0; i < n; ++i) {
    const std::uint64_t limit = i == 0 ? limits.first : limits.rest;
    Group group(price);
    std::size_t gradient = i == 0 ? 0 : pieces[i - 1];
    for (std::size_t j = i + 1; j <= n; ++j) {
      if (j > i + 1 && bytes[j - 1] - bytes[i] >= limit) break;
      for (; gradient < pieces[j - 1]; ++gradient) group.add(gradients[gradient]);
      seconds[i * (n + 1) + j] = group.seconds();
    }
  }

  // best[k][j]: the earliest end of the first j pieces in k groups, the last of which begins at from[k][j].
  std::vector<std::vector<double>> best{std::vector<double>(n + 1, kNever)};
  std::vector<std::vector<std::size_t>> from{std::vector<std::size_t>(n + 1, 0)};
  best[0][0] = 0;
  for (std::size_t k = 1; k <= n; ++k) {
    best.emplace_back(n + 1, kNever);
    from.emplace_back(n + 1, 0);
    for (std::size_t j = k; j <= n; ++j) {
      for (std::size_t i = k - 1; i < j; ++i) {
        const double end = std::max(best[k - 1][i], ready[j]) + seconds[i * (n + 1) + j];
        if (end < best[k][j]) {
          best[k][j] = end;
          from[k][j] = i;
        }
      }
    }
  }
  double earliest = kNever;
  for (std::size_t k = 1; k <= n; ++k) earliest = std::min(earliest, best[k][n]);
  // Rounding makes equal sums differ.
  const double enough = earliest * (1 + 1e-12) + slack * (earliest - ready[n]);
  std::size_t groups = 1;
  while (best[groups][n] > enough) ++groups;

  Borders borders{std::vector<std::size_t>(groups), best[groups][n]};
  for (std::size_t k = groups, j = n; k > 0; j = from[k][j], --k) borders.ends[k - 1] = pieces[j - 1];
  return borders;
}

}  // namespace kolo::train
