// Every algorithm of every collective, over every transport, with sizes that are zero, one, odd and uneven.
#include "algorithms/algorithm.hpp"
#include "support/cases.hpp"
#include "support/cluster.hpp"
#include "support/transports.hpp"
#include "support/types.hpp"
#include "support/variants.hpp"

namespace kolo::test {
namespace {

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
// Instrumented code is twenty times slower, and fewer cases are enough for it.
constexpr int kSizes[] = {1, 2, 3, 4};
constexpr std::uint64_t kCounts[] = {0, 1, 7};
constexpr std::uint64_t kCut = 517;
constexpr std::uint64_t kLonger = 5003;
constexpr std::uint64_t kLong[] = {600'001};
#else
constexpr int kSizes[] = {1, 2, 3, 4, 5, 8};
constexpr std::uint64_t kCounts[] = {0, 1, 2, 7, 64};
constexpr std::uint64_t kCut = 1031;
constexpr std::uint64_t kLonger = 40'007;
constexpr std::uint64_t kLong[] = {3'000'001, 524'288};
#endif
/// Cuts the chunks of kCut elements into several segments, and those of kCounts not.
constexpr std::uint64_t kSegment = 256;

class CollectivesOver : public ::testing::TestWithParam<const char*> {};

TEST_P(CollectivesOver, EveryAlgorithmAtEverySizeAndCount) {
  for (const int size : kSizes) {
    expect_ranks({.size = size, .transport = GetParam()}, [](Communicator& communicator) {
      for (const algorithms::ConfiguredAlgorithm& variant : all_variants()) {
        const algorithms::Algorithm& algorithm = *variant.algorithm;
        const std::string name = variant.name();
        if (!algorithms::supports(algorithm,
                                  {algorithm.collective, 0, communicator.size(), 0, variant.arguments})
                 .ok()) {
          continue;
        }
        const auto run_in_segments = [&](std::uint64_t count, std::uint64_t segment) {
          const CallOptions options{.algorithm = name, .segment_bytes = segment};
          run(algorithm.collective, {communicator, options, DType::float32, ReduceOp::sum}, count);
        };
        for (const std::uint64_t count : kCounts) run_in_segments(count, 0);
        run_in_segments(kCut, kSegment);
        for (const std::uint64_t segment : {1000, 0}) run_in_segments(kLonger, segment);
      }
    });
  }
}

TEST_P(CollectivesOver, EveryElementTypeAndReduction) {
  expect_ranks({.size = 3, .transport = GetParam()}, [](Communicator& communicator) {
    for (const DType dtype : kDTypes) {
      for (const ReduceOp op : kReduceOps) {
        if (!knows(dtype, op)) continue;
        for (const algorithms::Algorithm& algorithm : algorithms::algorithms()) {
          // What moves data alone has no reduction.
          if (!schedule::is_reducing(algorithm.collective) && op != ReduceOp::sum) continue;
          const CallOptions options{.algorithm = algorithm.name, .segment_bytes = 0};
          run(algorithm.collective, {communicator, options, dtype, op}, 517);
        }
      }
    }
  });
}

// The numbers' sums are infinite or NaN, and their averages are not.
TEST_P(CollectivesOver, AveragesOfLargeShortNumbers) {
  for (const int size : {2, 3, 5, 8}) {
    expect_ranks({.size = size, .transport = GetParam()}, [](Communicator& communicator) {
      for (const algorithms::ConfiguredAlgorithm& variant : all_variants()) {
        const algorithms::Algorithm& algorithm = *variant.algorithm;
        const std::string name = variant.name();
        if (!schedule::is_reducing(algorithm.collective) ||
            !algorithms::supports(algorithm,
                                  {algorithm.collective, 0, communicator.size(), 0, variant.arguments})
                 .ok()) {
          continue;
        }
        for (const DType dtype : {DType::float16, DType::float8_e4m3fn, DType::float8_e5m2}) {
          // So that scaled sums are exact.
          if (2 * communicator.size() > 1 << element_type(dtype).digits) continue;
          Case large{communicator, {.algorithm = name}, dtype, ReduceOp::average};
          large.factor = dtype == DType::float8_e4m3fn ? 0x1p7 : 0x1p14;
          for (const std::uint64_t count : {1u, 517u, 5003u}) run(algorithm.collective, large, count);
        }
      }
    });
  }
}

TEST_P(CollectivesOver, LongMessages) {
  expect_ranks({.size = 4, .transport = GetParam()}, [](Communicator& communicator) {
    for (const std::uint64_t count : kLong) {
      run(schedule::Collective::all_reduce, {communicator, {}, DType::float32, ReduceOp::sum}, count);
      run(schedule::Collective::all_gather, {communicator, {}, DType::int16, ReduceOp::sum}, count);
      run(schedule::Collective::reduce_scatter, {communicator, {}, DType::bfloat16, ReduceOp::max}, count);
      run(schedule::Collective::reduce, {communicator, {}, DType::complex128, ReduceOp::sum}, count / 4);
    }
  });
}

// Shared buffers must give the same results as private ones, also if ranks use different kinds.
TEST_P(CollectivesOver, SharedMemory) {
  expect_ranks({.size = 4, .transport = GetParam()}, [](Communicator& communicator) {
    constexpr std::uint64_t kCount = 300'007;
    for (int round = 0; round < 3; ++round) {
      const SharedMemory memory(kCount * sizeof(float));
      std::vector<float> plain(kCount);
      const bool shared = (communicator.rank() + round) % 2 == 0;
      float* data = shared ? reinterpret_cast<float*>(memory.data()) : plain.data();
      for (std::uint64_t i = 0; i < kCount; ++i)
        data[i] = static_cast<float>(contribution(communicator.rank(), i, ReduceOp::sum));
      communicator.all_reduce(Buffer(data, kCount, DType::float32));
      for (std::uint64_t i = 0; i < kCount; ++i) {
        if (data[i] != static_cast<float>(reduced(4, i, ReduceOp::sum, DType::float32)))
          throw std::runtime_error("wrong sum");
      }
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Conformance, CollectivesOver, kTransports, kTransportNames);

}  // namespace
}  // namespace kolo::test
