// Lists of buffers, one for each rank, over every transport: every algorithm that has them, every element
// type, lists on some ranks alone, and what is refused.
#include <array>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "conformance/shared_memory.hpp"
#include "support/cluster.hpp"
#include "support/listed_cases.hpp"
#include "support/require.hpp"
#include "support/transports.hpp"
#include "support/types.hpp"
#include "support/variants.hpp"

namespace kolo::test {
namespace {

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
constexpr int kListSizes[] = {1, 2, 3, 4};
constexpr std::uint64_t kLongList = 5003;
constexpr std::uint64_t kLongParts = 60'007;
constexpr DType kListTypes[] = {DType::int8, DType::bfloat16, DType::float64};  // of other sizes than float32
#else
constexpr int kListSizes[] = {1, 2, 3, 4, 5, 8};
constexpr std::uint64_t kLongList = 40'007;
constexpr std::uint64_t kLongParts = 700'007;
constexpr auto kListTypes = kDTypes;
#endif

class ListsOver : public ::testing::TestWithParam<const char*> {};

/// Runs `each` with every algorithm that takes lists and that so many ranks can run.
void for_each_variant(const Communicator& c,
                      const std::function<void(schedule::Collective, std::string)>& each) {
  for (const algorithms::ConfiguredAlgorithm& variant : all_variants()) {
    const schedule::Collective collective = variant.algorithm->collective;
    if (takes_lists(collective) &&
        algorithms::supports(*variant.algorithm, {collective, 0, c.size(), 0, variant.arguments}).ok())
      each(collective, variant.name());
  }
}

TEST_P(ListsOver, EveryAlgorithmAtEverySizeAndCount) {
  for (const int size : kListSizes) {
    expect_ranks({.size = size, .transport = GetParam()}, [](Communicator& communicator) {
      for_each_variant(communicator, [&](schedule::Collective collective, const std::string& name) {
        const auto run = [&](std::uint64_t count, std::uint64_t segment, const Listing& listing) {
          const CallOptions options{.algorithm = name, .segment_bytes = segment};
          run_listed(collective, {communicator, options, DType::float32, ReduceOp::sum}, count, listing);
        };
        for (const std::uint64_t count : {0, 1, 7}) run(count, 0, {});
        run(64, 0, {.uneven = false, .blocks = false});
        // In segments, some of which cross parts.
        run(1031, 256, {.blocks = false});
        run(1031, 256, {.uneven = false, .on_all = false});
        run(kLongList, 1000, {.on_all = false});
        run(kLongList, 0, {});
      });
    });
  }
}

TEST_P(ListsOver, EveryElementTypeAndReduction) {
  expect_ranks({.size = 3, .transport = GetParam()}, [](Communicator& communicator) {
    for (const DType dtype : kListTypes) {
      for (const ReduceOp op : kReduceOps) {
        if (!knows(dtype, op)) continue;
        for_each_variant(communicator, [&](schedule::Collective collective, const std::string& name) {
          // Lists say where values lie, which no reduction asks: one algorithm stands for all.
          if (op != ReduceOp::sum && (!schedule::is_reducing(collective) || name != "ring")) return;
          if (name.find(':') != std::string::npos) return;  // the types need no other arguments
          run_listed(collective, {communicator, {.algorithm = name}, dtype, op}, 67, {.on_all = false});
        });
      }
    }
  });
}

TEST_P(ListsOver, LongParts) {
  expect_ranks({.size = 4, .transport = GetParam()}, [](Communicator& communicator) {
    for (const bool uneven : {false, true}) {
      for (const char* name : {"", "ring", "butterfly", "binomial"}) {
        for (int i = 0; i <= static_cast<int>(schedule::Collective::all_to_all); ++i) {
          const auto collective = static_cast<schedule::Collective>(i);
          if (!takes_lists(collective)) continue;
          if (*name != '\0' && algorithms::find_algorithm(collective, name) == nullptr) continue;
          // Case::algorithm() needs a name.
          const std::string known = collective == schedule::Collective::all_to_all ? "direct" : name;
          run_listed(collective, {communicator, {.algorithm = known}, DType::float32, ReduceOp::sum},
                     kLongParts, {.uneven = uneven, .on_all = uneven});
        }
      }
    }
  });
}

// In memory that the ranks share, on ranks that have a core each and on ranks that have one in common.
TEST_P(ListsOver, SharedMemory) {
  const auto run_all = [](Communicator& communicator) {
    for (const std::uint64_t count : {9u, 3001u, 200'003u}) {
      for (const bool on_all : {false, true}) {
        for (const auto collective :
             {schedule::Collective::all_gather, schedule::Collective::reduce_scatter}) {
          Case shared{communicator, kDirect, DType::float32, ReduceOp::sum};
          shared.memory = [](std::size_t bytes) { return region(bytes, 0); };
          run_listed(collective, shared, count, {.on_all = on_all});
          if (communicator.rank() == 1) shared.memory = nullptr;
          run_listed(collective, shared, count, {.uneven = false, .on_all = on_all, .blocks = on_all});
        }
      }
    }
  };
  expect_ranks({.size = 3, .transport = GetParam()}, run_all);
  const FewCores few(1);
  expect_ranks({.size = 3, .transport = GetParam()}, run_all);
}

/// The same calls with lists and without, of numbers whose sums depend on the order, have the same bits.
TEST_P(ListsOver, SumsHaveTheBitsOfThoseInOnePiece) {
  for (const int size : {2, 3, 5}) {
    expect_ranks({.size = size, .transport = GetParam()}, [](Communicator& c) {
      const auto n = static_cast<std::size_t>(c.size());
      const auto longer = Reduction::custom<float>("a + b / 2", [](float a, float b) { return a + b / 2; });
      for_each_variant(c, [&](schedule::Collective collective, const std::string& name) {
        if (collective != schedule::Collective::reduce_scatter) return;
        const bool in_order = algorithms::parse_algorithm(collective, name).value().algorithm->rank_ordered;
        const auto compare = [&](DType dtype, const Reduction& reduction) {
          constexpr std::size_t kEach = 1003;
          Array whole(n * kEach, dtype), expected(kEach, dtype), got(kEach, dtype);
          std::vector<Array> parts;
          std::vector<Buffer> list;
          for (std::size_t r = 0; r < n; ++r) list.push_back(parts.emplace_back(kEach, dtype).buffer());
          for (std::size_t i = 0; i < n * kEach; ++i) {
            whole.set(i,
                      1.0 / static_cast<double>(1 + (i * 7 + static_cast<std::size_t>(c.rank()) * 3) % 31));
            parts[i / kEach].set(i % kEach, whole[i]);
          }
          const CallOptions options{.algorithm = name, .segment_bytes = 600};
          c.reduce_scatter(whole.buffer(), expected.buffer(), reduction, {}, options);
          c.reduce_scatter(list, got.buffer(), reduction, options);
          require(std::memcmp(got.buffer().data, expected.buffer().data, got.buffer().bytes()) == 0,
                  name + ": other bits");
        };
        compare(DType::float32, ReduceOp::sum);
        compare(DType::float64, ReduceOp::average);
        compare(DType::float16, ReduceOp::average);  // runs on a scaled copy
        compare(DType::float32,
                c.rank() == 1 ? Reduction(ReduceOp::sum) : Reduction::premultiplied_sum(-0.7));
        if (in_order) compare(DType::float32, longer);
      });
    });
  }
}

TEST_P(ListsOver, AnyRangeOfBuffersIsAList) {
  expect_ranks({.size = 3, .transport = GetParam()}, [](Communicator& c) {
    const std::vector<int> own(static_cast<std::size_t>(c.rank()), c.rank());
    std::vector<std::vector<int>> vectors = {{}, {7}, {7, 7}};
    c.all_gather(own, vectors);
    const std::vector<std::vector<int>> expected = {{}, {1}, {2, 2}};
    require(vectors == expected, "wrong vectors");
    std::array<int, 3> numbers = {-1, -1, -1};
    std::array<std::span<int>, 3> spans = {std::span(numbers).subspan(0, 0), std::span(numbers).subspan(2, 1),
                                           std::span(numbers).subspan(0, 2)};
    const Work work = c.all_gather_async(own, spans);
    spans = {};  // a list is read before the call returns
    work.wait();
    require(numbers == std::array<int, 3>{2, 2, 1}, "wrong spans");
    std::vector<int> sum(1);
    if (c.rank() == 0) sum.clear();
    if (c.rank() == 2) sum.resize(2);
    c.reduce_scatter(std::array<ConstBuffer, 3>{vectors[0], vectors[1], vectors[2]}, sum);
    require(sum == std::vector<int>(sum.size(), 3 * c.rank()), "wrong sums");
  });
}

TEST_P(ListsOver, BadListsAreRefused) {
  expect_ranks({.size = 2, .transport = GetParam()}, [](Communicator& c) {
    const auto refuse = [&](const std::vector<std::string>& expected, const std::function<void()>& call) {
      require_refused(c, expected, call);
    };
    std::vector<float> in(2), out(2), memory(8);
    const auto part = [&](std::size_t at, std::size_t count) {
      return Buffer(std::span(memory).subspan(at, count));
    };
    const Buffer nothing(nullptr, 2, DType::float32), integers(memory.data(), 2, DType::int32);
    const Buffer away(memory.data(), 2, DType::float32, {DeviceKind::cuda, 0});
    using List = std::vector<Buffer>;
    refuse({"all_gather: ", "`out` has 1 buffers for 2 ranks"}, [&] { c.all_gather(in, List{part(0, 2)}); });
    refuse({"all_gather: ", "`out` has 0 buffers"}, [&] { c.all_gather(in, List{}); });
    refuse({"reduce_scatter: ", "`in` has 3 buffers"}, [&] {
      c.reduce_scatter(List{part(0, 2), part(2, 2), part(4, 2)}, out);
    });
    refuse({"all_gather: ", "`out[1]` is null"}, [&] { c.all_gather(in, List{part(0, 2), nothing}); });
    refuse({"all_gather: ", "`out[1]` is int32 but `out[0]` is float32"}, [&] {
      c.all_gather(in, List{part(2, 2), integers});
    });
    refuse({"all_gather: ", "`in` is float32 but `out` is int32"}, [&] {
      c.all_gather(in, List{integers, integers});
    });
    refuse({"all_gather: ", "elements"}, [&] { c.all_gather(in, List{part(0, 3), part(3, 3)}); });
    refuse({"all_gather: ", "buffers in `out` overlap"}, [&] {
      c.all_gather(in, List{part(2, 2), part(1, 2)});
    });
    refuse({"all_gather: ", "in-place form"}, [&] {
      c.all_gather(part(1, 2), List{part(0, 2), part(2, 2)});
    });
    refuse({"all_gather: ", "in-place form"}, [&] {
      c.all_gather(part(c.rank() == 0 ? 2 : 0, 2), List{part(0, 2), part(2, 2)});
    });
    refuse({"reduce_scatter: ", "in-place form"}, [&] {
      c.reduce_scatter(List{part(0, 2), part(2, 2)}, part(c.rank() == 0 ? 3 : 1, 2));
    });
    refuse({"all_to_all: ", "overlap"}, [&] {
      c.all_to_all(List{part(0, 2), part(2, 2)}, List{part(4, 2), part(0, 2)});
    });
    refuse({"all_to_all: ", "sends itself"}, [&] {
      c.all_to_all(List{part(0, 2), part(2, 2)}, List{part(4, 1), part(5, 1)});
    });
    refuse({"scatter: ", "root 2"}, [&] { c.scatter(List{part(0, 2), part(2, 2)}, out, 2); });
    refuse({"scatter: ", "counts are not the lengths"}, [&] {
      c.scatter(List{part(0, 2), part(2, 2)}, out, c.rank(), std::array{2, 1});
    });
    refuse({"gather: ", "counts are not the lengths"}, [&] {
      c.gather(in, List{part(0, 2), part(2, 2)}, c.rank(), std::array{2, 2, 0});
    });
    // Where a rank reads nothing of a list, it may be anything; two parts may be read from one place.
    memory.assign(8, 1.0f);
    c.scatter(c.rank() == 0 ? List{part(0, 2), part(0, 2)} : List{nothing, integers, away}, out, 0);
    require(out == std::vector<float>({1, 1}), "wrong parts");
  });
}

TEST_P(ListsOver, RanksThatDisagreeAreTold) {
  expect_mismatch(
      GetParam(), 2,
      [](Communicator& c) {
        std::vector<std::vector<float>> parts = {{0, 0}, std::vector<float>(c.rank() == 0 ? 3 : 4)};
        const std::vector<float> in(c.rank() == 0 ? 2 : 4);
        c.all_gather(in, parts);
      },
      {"all_gather(5 float32", "all_gather(6 float32"});
  // Each rank alone could be right.
  expect_mismatch(GetParam(), 2,
                  [](Communicator& c) {
                    const std::vector<std::vector<float>> in(2, std::vector<float>(c.rank() == 0 ? 2 : 3));
                    auto out = in;
                    c.all_to_all(in, out, {.algorithm = "bruck"});
                  },
                  {"all_to_all", "uneven counts"});
}

INSTANTIATE_TEST_SUITE_P(Conformance, ListsOver, kTransports, kTransportNames);

}  // namespace
}  // namespace kolo::test
