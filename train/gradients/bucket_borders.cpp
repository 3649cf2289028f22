#include "gradients/bucket_borders.hpp"

#include <algorithm>
#include <array>
#include <iterator>
#include <map>

namespace kolo::train {
namespace {

struct OpenBucket {
  std::vector<std::size_t> members;
  std::size_t last_position = 0;  ///< in the order; the bucket is complete with this gradient
  std::uint64_t bytes = 0;
};

/// Sizes that differ by less say nothing about the latency.
constexpr double kLeastSpread = 4;
/// Clocks of different ranks miss a short time by as much as a long one: errors relative to a time count as
/// those of one that is longer by this part of the longest.
constexpr double kBlur = 0.1;

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

std::vector<std::vector<std::size_t>> assign_buckets(std::span<const ReadyGradient> parameters,
                                                     std::span<const std::size_t> order,
                                                     std::uint64_t first_bytes, std::uint64_t bytes) {
  std::vector<OpenBucket> closed;
  std::map<DType, OpenBucket> open;
  std::map<DType, std::uint64_t> limits;
  for (std::size_t position = 0; position < order.size(); ++position) {
    const ReadyGradient& parameter = parameters[order[position]];
    OpenBucket& bucket = open[parameter.dtype];
    bucket.members.push_back(order[position]);
    bucket.last_position = position;
    bucket.bytes += parameter.bytes;
    std::uint64_t& limit = limits.try_emplace(parameter.dtype, first_bytes).first->second;
    if (bucket.bytes >= limit) {
      limit = bytes;
      closed.push_back(std::move(bucket));
      open.erase(parameter.dtype);
    }
  }
  for (auto& [dtype, bucket] : open) closed.push_back(std::move(bucket));
  std::ranges::sort(closed, {}, &OpenBucket::last_position);
  std::vector<std::vector<std::size_t>> buckets;
  for (OpenBucket& bucket : closed) buckets.push_back(std::move(bucket.members));
  return buckets;
}

std::vector<std::vector<std::size_t>> assign_buckets(std::span<const ReadyGradient> parameters,
                                                     std::span<const std::size_t> order,
                                                     std::span<const std::size_t> ends) {
  constexpr std::uint64_t kNoLimit = std::numeric_limits<std::uint64_t>::max();
  std::vector<std::vector<std::size_t>> buckets;
  std::size_t begin = 0;
  for (const std::size_t end : ends) {
    auto group = assign_buckets(parameters, order.subspan(begin, end - begin), kNoLimit, kNoLimit);
    std::ranges::move(group, std::back_inserter(buckets));
    begin = end;
  }
  return buckets;
}

BucketPrice line_through(const BusyTime& small, const BusyTime& large) {
  if (large.bytes <= small.bytes) return {small.seconds, 0};
  const double per_byte = std::max(0.0, large.seconds - small.seconds) / (large.bytes - small.bytes);
  return {std::max(0.0, small.seconds - per_byte * small.bytes), per_byte};
}

BucketPrice fit_price(std::span<const BusyTime> measured, const BucketPrice& expected) {
  double longest = 0;
  for (const BusyTime& busy : measured) longest = std::max(longest, busy.seconds);
  // Each divided by the blurred time: n buckets, b bytes, t seconds, e the expected seconds.
  double nn = 0, nb = 0, bb = 0, nt = 0, bt = 0, ee = 0, et = 0;
  double least = 0, most = 0;  // mean bytes of a bucket
  for (const auto& [buckets, bytes, seconds] : measured) {
    if (!(bytes > 0) || !(seconds > 0)) continue;
    const double weight = 1 / (seconds + kBlur * longest);
    const double n = buckets * weight, b = bytes * weight, t = seconds * weight;
    const double e = expected.latency * n + expected.per_byte * b;
    nn += n * n;
    nb += n * b;
    bb += b * b;
    nt += n * t;
    bt += b * t;
    ee += e * e;
    et += e * t;
    const double size = bytes / buckets;
    least = most > 0 ? std::min(least, size) : size;
    most = std::max(most, size);
  }
  if (!(most > 0)) return expected;
  if (most < kLeastSpread * least) {
    if (!(ee > 0)) return {0, bt / bb};
    return {expected.latency * et / ee, expected.per_byte * et / ee};
  }
  const double determinant = nn * bb - nb * nb;
  const double fitted = determinant > 0 ? (nt * bb - bt * nb) / determinant : 0;
  const double latency = std::max(fitted, expected.latency);
  return {latency, std::max(0.0, (bt - latency * nb) / bb)};
}

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
