// What the order of summation promises: the same bits on all ranks, and those of the left fold by rank where
// an algorithm folds so.
#include <cstring>
#include <set>
#include <string>

#include "algorithms/algorithm.hpp"
#include "conformance/transports.hpp"
#include "support/cluster.hpp"
#include "support/variants.hpp"

namespace kolo::test {
namespace {

constexpr std::uint64_t kCount = 1031;
using Values = std::vector<float>;

/// Sums of such numbers differ in their last bits with every other order.
Values contribution_of(int rank) {
  Values values(kCount);
  for (std::uint64_t i = 0; i < kCount; ++i) {
    const auto mixed =
        static_cast<std::uint32_t>((i + 1) * 2654435761u + static_cast<std::uint64_t>(rank) * 40503u);
    values[i] = static_cast<float>(mixed % 100'003) / static_cast<float>(1u << (mixed % 17));
  }
  return values;
}

Values left_fold(int size) {
  Values sum = contribution_of(0);
  for (int rank = 1; rank < size; ++rank) {
    const Values next = contribution_of(rank);
    for (std::uint64_t i = 0; i < kCount; ++i) sum[i] += next[i];
  }
  return sum;
}

class OrderOver : public ::testing::TestWithParam<const char*> {};

TEST_P(OrderOver, AllRanksEndWithTheSameBits) {
  const std::set<std::string> folds_by_rank = {"central", "naive", "direct", "parameter_server"};
  for (const int size : {3, 6, 8}) {
    expect_ranks({.size = size, .transport = GetParam()}, [&](Communicator& communicator) {
      const Values expected = left_fold(size);
      for (const Configured& variant : all_variants()) {
        const Algorithm& algorithm = *variant.algorithm;
        if (algorithm.collective != Collective::all_reduce) continue;
        if (!supports(algorithm, {algorithm.collective, 0, size, 0, variant.arguments}).ok()) continue;
        const std::string name = variant.name();
        Values data = contribution_of(communicator.rank());
        communicator.all_reduce(Buffer(data.data(), kCount, DType::float32), ReduceOp::sum,
                                {.algorithm = name, .segment_bytes = 1000});
        Values all(kCount * static_cast<std::uint64_t>(size));
        communicator.all_gather(ConstBuffer(data.data(), kCount, DType::float32),
                                Buffer(all.data(), all.size(), DType::float32));
        for (std::size_t r = 0; r < static_cast<std::size_t>(size); ++r) {
          if (std::memcmp(all.data() + r * kCount, data.data(), kCount * sizeof(float)) != 0)
            throw std::runtime_error(name + ": rank " + std::to_string(r) + " has other bits");
        }
        const bool same = std::memcmp(data.data(), expected.data(), kCount * sizeof(float)) == 0;
        if (folds_by_rank.contains(std::string(algorithm.name)) && !same)
          throw std::runtime_error(name + " does not give the bits of the left fold by rank");
      }
    });
  }
}

INSTANTIATE_TEST_SUITE_P(Conformance, OrderOver, kTransports);

}  // namespace
}  // namespace kolo::test
