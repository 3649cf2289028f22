// Premultiplied sums over every transport: a factor a rank, in every collective that reduces.
#include <cstring>

#include "kernels/kernels.hpp"
#include "support/cluster.hpp"
#include "support/pattern.hpp"
#include "support/require.hpp"
#include "support/transports.hpp"
#include "support/types.hpp"

namespace kolo::test {
namespace {

class PremultipliedOver : public ::testing::TestWithParam<const char*> {};

/// A factor that is no power of two, and for one rank none: it calls for a plain sum.
Reduction reduction_of(int rank) {
  return rank == 1 ? Reduction(ReduceOp::sum) : Reduction::premultiplied_sum(rank == 0 ? -0.7 : rank);
}

using Bytes = std::vector<std::byte>;

/// The results of all forms, one after another: with factors, or with data that was scaled before.
Bytes results(Communicator& c, DType dtype, std::uint64_t each, bool by_kolo, const std::string& algorithm) {
  const auto size = static_cast<std::uint64_t>(c.size());
  const std::uint64_t count = each * size;
  Bytes given(count * size_of(dtype));
  for (std::uint64_t i = 0; i < count; ++i)
    store(given.data() + i * size_of(dtype), dtype,
          0.25 * static_cast<double>(1 + (i * 5 + static_cast<std::uint64_t>(c.rank()) * 3) % 7));
  const Bytes before = given;
  const Reduction own = reduction_of(c.rank());
  const Reduction reduction = by_kolo ? own : ReduceOp::sum;
  if (const double* factor = own.factor(); factor != nullptr && !by_kolo)
    kernels::reference::scale(dtype, given.data(), before.data(), count, *factor);
  Bytes all;
  const auto note = [&](const Bytes& result) { all.insert(all.end(), result.begin(), result.end()); };
  const ConstBuffer in(given.data(), count, dtype);
  const CallOptions options{.algorithm = algorithm};
  Bytes whole(given.size()), part(each * size_of(dtype));
  c.all_reduce(in, Buffer(whole.data(), count, dtype), reduction, options);
  note(whole);
  c.reduce_scatter(in, Buffer(part.data(), each, dtype), reduction);
  note(part);
  for (int root = 0; root < c.size(); ++root) {
    whole.assign(whole.size(), std::byte{});
    c.reduce(in, Buffer(whole.data(), count, dtype), root, reduction);
    note(whole);
  }
  require(!by_kolo || given == before, "the input has changed");
  Work work = c.all_reduce_async(Buffer(given.data(), count, dtype), reduction, options);
  work.wait();
  note(given);
  return all;
}

TEST_P(PremultipliedOver, HasTheBitsOfASumOfScaledData) {
  for (const int size : {1, 2, 3}) {
    expect_ranks({.size = size, .transport = GetParam()}, [](Communicator& c) {
      for (const DType dtype : kDTypes) {
        if (!is_floating(dtype) && !is_complex(dtype)) continue;
        for (const std::uint64_t each : {0u, 3u, 5003u}) {
          for (const char* algorithm : {"ring", "direct"}) {
            require(results(c, dtype, each, true, algorithm) == results(c, dtype, each, false, algorithm),
                    std::string(name_of(dtype)) + ", " + algorithm);
          }
        }
      }
    });
  }
}

TEST_P(PremultipliedOver, RefusesIntegersAndLeavesTheDataOfARefusedCall) {
  expect_ranks({.size = 2, .transport = GetParam()}, [](Communicator& c) {
    const auto refused = [](const std::string& expected, const auto& call) {
      try {
        call();
      } catch (const InvalidArgumentError& error) {
        return std::string(error.what()).find(expected) != std::string::npos;
      }
      return false;
    };
    std::vector<int> integers{1, 2};
    std::vector<float> floats{1, 2};
    const Reduction halves = Reduction::premultiplied_sum(0.5);
    require(refused("premultiplied_sum of int32", [&] { c.all_reduce(integers, halves); }), "integers");
    require(refused("rnig", [&] { c.all_reduce(floats, halves, {.algorithm = "rnig"}); }), "algorithm");
    require(floats == std::vector<float>{1, 2} && integers == std::vector<int>{1, 2}, "data have changed");
    c.all_reduce(floats, halves);
    require(floats == std::vector<float>{1, 2}, "a sum of two halves");
  });
}

INSTANTIATE_TEST_SUITE_P(Conformance, PremultipliedOver, kTransports, kTransportNames);

}  // namespace
}  // namespace kolo::test
