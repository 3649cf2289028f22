#include "gradients/bucket_assignment.hpp"

#include <algorithm>
#include <iterator>
#include <limits>
#include <map>

namespace kolo::train {
namespace {

struct OpenBucket {
  std::vector<std::size_t> members;
  std::size_t last_position = 0;  ///< in the order; the bucket is complete with this gradient
  std::uint64_t bytes = 0;
};

}  // namespace

std::vector<std::vector<std::size_t>> assign_buckets(std::span<const ParameterSize> parameters,
                                                     std::span<const std::size_t> order,
                                                     std::uint64_t first_bytes, std::uint64_t bytes) {
  std::vector<OpenBucket> closed;
  std::map<DType, OpenBucket> open;
  std::map<DType, std::uint64_t> limits;
  for (std::size_t position = 0; position < order.size(); ++position) {
    const ParameterSize& parameter = parameters[order[position]];
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

std::vector<std::vector<std::size_t>> assign_buckets(std::span<const ParameterSize> parameters,
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

}  // namespace kolo::train
