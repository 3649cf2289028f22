// Every algorithm of every collective, over every transport, with sizes that are zero, one, odd and uneven.
#include <numeric>

#include "algorithms/algorithm.hpp"
#include "conformance/transports.hpp"
#include "support/cluster.hpp"
#include "support/pattern.hpp"
#include "support/variants.hpp"

namespace kolo::test {
namespace {

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
// Instrumented code takes twenty times as long and sees what it sees in fewer cases.
constexpr int kSizes[] = {1, 2, 3, 4};
constexpr std::uint64_t kCounts[] = {0, 1, 7, 5003};
constexpr std::uint64_t kLong[] = {600'001};
#else
constexpr int kSizes[] = {1, 2, 3, 4, 5, 8};
constexpr std::uint64_t kCounts[] = {0, 1, 2, 7, 64, 1031, 40'007};
constexpr std::uint64_t kLong[] = {3'000'001, 524'288};
#endif

struct Case {
  Communicator& communicator;
  CallOptions options;
  DType dtype;
  ReduceOp op;

  int rank() const { return communicator.rank(); }
  int size() const { return communicator.size(); }
  double own(std::uint64_t i) const { return contribution(rank(), i, op); }
  double all(std::uint64_t i) const { return reduced(size(), i, op, dtype); }
  const Algorithm& algorithm(Collective collective) const {
    return *parse_algorithm(collective, options.algorithm).value().algorithm;
  }
  /// Parts of which some are empty, or equal ones; they add up to about `total`.
  std::vector<std::uint64_t> parts(std::uint64_t total, bool uneven = true) const {
    std::vector<std::uint64_t> result(static_cast<std::size_t>(size()),
                                      total / static_cast<std::uint64_t>(size()));
    for (std::size_t r = 0; uneven && r < result.size(); ++r) result[r] = r % 3 == 1 ? 0 : result[r] + r;
    return result;
  }
  static std::uint64_t before(const std::vector<std::uint64_t>& parts, int rank) {
    return std::accumulate(parts.begin(), parts.begin() + rank, std::uint64_t{0});
  }
};

void all_reduce(Case c, std::uint64_t count) {
  Array in(count, c.dtype);
  Array out(count, c.dtype);
  in.fill([&](auto i) { return c.own(i); });
  c.communicator.all_reduce(in.buffer(), out.buffer(), c.op, c.options);
  out.expect("all_reduce", [&](auto i) { return c.all(i); });
  in.expect("input of all_reduce", [&](auto i) { return c.own(i); });
  c.communicator.all_reduce(in.buffer(), c.op, c.options);
  in.expect("all_reduce in place", [&](auto i) { return c.all(i); });
}

void reduce_scatter(Case c, std::uint64_t count) {
  const auto parts = c.parts(count);
  const std::uint64_t begin = Case::before(parts, c.rank());
  const std::uint64_t own = parts[static_cast<std::size_t>(c.rank())];
  const std::uint64_t total = Case::before(parts, c.size());
  Array in(total, c.dtype);
  Array out(own, c.dtype);
  in.fill([&](auto i) { return c.own(i); });
  c.communicator.reduce_scatter(in.buffer(), out.buffer(), c.op, parts, c.options);
  out.expect("reduce_scatter", [&](auto i) { return c.all(begin + i); });
  in.expect("input of reduce_scatter", [&](auto i) { return c.own(i); });
  c.communicator.reduce_scatter(in.buffer(), in.part(begin, own), c.op, parts, c.options);
  in.expect("reduce_scatter in place",
            [&](auto i) { return i >= begin && i < begin + own ? c.all(i) : c.own(i); });
}

void all_gather(Case c, std::uint64_t count) {
  const auto parts = c.parts(count);
  const std::uint64_t begin = Case::before(parts, c.rank());
  const std::uint64_t own = parts[static_cast<std::size_t>(c.rank())];
  const auto value = [&](std::uint64_t i) { return contribution(3, i, c.op); };
  Array in(own, c.dtype);
  Array out(Case::before(parts, c.size()), c.dtype);
  in.fill([&](auto i) { return value(begin + i); });
  c.communicator.all_gather(in.buffer(), out.buffer(), parts, c.options);
  out.expect("all_gather", value);
  out.fill([](auto) { return 0; });
  for (std::uint64_t i = 0; i < own; ++i) out.set(begin + i, value(begin + i));
  c.communicator.all_gather(out.part(begin, own), out.buffer(), parts, c.options);
  out.expect("all_gather in place", value);
}

void broadcast(Case c, std::uint64_t count) {
  for (int root = 0; root < c.size(); ++root) {
    Array data(count, c.dtype);
    data.fill([&](auto i) { return c.own(i); });
    c.communicator.broadcast(data.buffer(), root, c.options);
    data.expect("broadcast", [&](auto i) { return contribution(root, i, c.op); });
  }
}

void reduce(Case c, std::uint64_t count) {
  for (int root = 0; root < c.size(); ++root) {
    Array in(count, c.dtype);
    Array out(count, c.dtype);
    in.fill([&](auto i) { return c.own(i); });
    out.fill([](auto) { return 1; });
    c.communicator.reduce(in.buffer(), out.buffer(), root, c.op, c.options);
    out.expect("reduce", [&](auto i) { return c.rank() == root ? c.all(i) : 1; });
    in.expect("input of reduce", [&](auto i) { return c.own(i); });
    c.communicator.reduce(in.buffer(), in.buffer(), root, c.op, c.options);
    in.expect("reduce in place", [&](auto i) { return c.rank() == root ? c.all(i) : c.own(i); });
  }
}

void scatter(Case c, std::uint64_t count) {
  const bool uneven = !c.algorithm(Collective::scatter).even_parts_only;
  const auto parts = c.parts(count, uneven);
  const auto counts = uneven ? parts : std::vector<std::uint64_t>();
  const std::uint64_t begin = Case::before(parts, c.rank());
  const std::uint64_t own = parts[static_cast<std::size_t>(c.rank())];
  for (int root = 0; root < c.size(); ++root) {
    Array in(c.rank() == root ? Case::before(parts, c.size()) : 0, c.dtype);
    Array out(own, c.dtype);
    in.fill([&](auto i) { return contribution(root, i, c.op); });
    c.communicator.scatter(in.buffer(), out.buffer(), root, counts, c.options);
    out.expect("scatter", [&](auto i) { return contribution(root, begin + i, c.op); });
    if (c.rank() == root) {
      c.communicator.scatter(in.buffer(), in.part(begin, own), root, counts, c.options);
      in.expect("scatter in place", [&](auto i) { return contribution(root, i, c.op); });
    } else {
      c.communicator.scatter(ConstBuffer(), out.buffer(), root, counts, c.options);
    }
  }
}

void gather(Case c, std::uint64_t count) {
  const bool uneven = !c.algorithm(Collective::gather).even_parts_only;
  const auto parts = c.parts(count, uneven);
  const auto counts = uneven ? parts : std::vector<std::uint64_t>();
  const std::uint64_t begin = Case::before(parts, c.rank());
  const std::uint64_t own = parts[static_cast<std::size_t>(c.rank())];
  for (int root = 0; root < c.size(); ++root) {
    const auto value = [&](std::uint64_t i) { return contribution(root + 5, i, c.op); };
    Array in(own, c.dtype);
    Array out(c.rank() == root ? Case::before(parts, c.size()) : 0, c.dtype);
    in.fill([&](auto i) { return value(begin + i); });
    c.communicator.gather(in.buffer(), out.buffer(), root, counts, c.options);
    out.expect("gather", value);
    if (c.rank() == root) {
      out.fill([](auto) { return 0; });
      for (std::uint64_t i = 0; i < own; ++i) out.set(begin + i, value(begin + i));
      c.communicator.gather(out.part(begin, own), out.buffer(), root, counts, c.options);
      out.expect("gather in place", value);
    } else {
      c.communicator.gather(in.buffer(), Buffer(), root, counts, c.options);
    }
  }
}

void all_to_all(Case c, std::uint64_t count) {
  const auto value = [](int from, int to, std::uint64_t i) {
    return static_cast<double>((static_cast<std::uint64_t>(from * 5 + to) + i) % 50);
  };
  const auto size = static_cast<std::uint64_t>(c.size());
  const std::uint64_t part = count / size;
  Array data(part * size, c.dtype);
  Array out(part * size, c.dtype);
  data.fill([&](auto i) {
    return value(c.rank(), static_cast<int>(i / std::max<std::uint64_t>(part, 1)),
                 i % std::max<std::uint64_t>(part, 1));
  });
  const auto expected = [&](std::uint64_t i) {
    return value(static_cast<int>(i / std::max<std::uint64_t>(part, 1)), c.rank(),
                 i % std::max<std::uint64_t>(part, 1));
  };
  c.communicator.all_to_all(data.buffer(), out.buffer(), {}, {}, c.options);
  out.expect("all_to_all", expected);
  const Algorithm& algorithm = c.algorithm(Collective::all_to_all);
  if (!algorithm.out_of_place_only) {
    c.communicator.all_to_all(data.buffer(), c.options);
    data.expect("all_to_all in place", expected);
  }
  if (algorithm.even_parts_only) return;

  // Rank a sends (a + 2 b) % 4 times a step to rank b.
  const auto amount = [&](int from, int to) {
    return static_cast<std::uint64_t>((from + 2 * to) % 4) * (count / 7 + 1);
  };
  std::vector<std::uint64_t> sends;
  std::vector<std::uint64_t> receives;
  for (int r = 0; r < c.size(); ++r) {
    sends.push_back(amount(c.rank(), r));
    receives.push_back(amount(r, c.rank()));
  }
  Array from(Case::before(sends, c.size()), c.dtype);
  Array to(Case::before(receives, c.size()), c.dtype);
  for (int r = 0; r < c.size(); ++r) {
    for (std::uint64_t i = 0; i < sends[static_cast<std::size_t>(r)]; ++i)
      from.set(Case::before(sends, r) + i, value(c.rank(), r, i));
  }
  c.communicator.all_to_all(from.buffer(), to.buffer(), sends, receives, c.options);
  int source = 0;
  to.expect("all_to_all uneven", [&](auto i) {
    while (i >= Case::before(receives, source + 1)) ++source;
    return value(source, c.rank(), i - Case::before(receives, source));
  });
}

void run(Collective collective, Case c, std::uint64_t count) {
  switch (collective) {
    case Collective::all_reduce:
      return all_reduce(c, count);
    case Collective::reduce_scatter:
      return reduce_scatter(c, count);
    case Collective::all_gather:
      return all_gather(c, count);
    case Collective::broadcast:
      return broadcast(c, count);
    case Collective::reduce:
      return reduce(c, count);
    case Collective::scatter:
      return scatter(c, count);
    case Collective::gather:
      return gather(c, count);
    case Collective::all_to_all:
      return all_to_all(c, count);
    case Collective::barrier:
      return c.communicator.barrier(c.options);
    case Collective::send_recv:
      return;
  }
}

class CollectivesOver : public ::testing::TestWithParam<const char*> {};

TEST_P(CollectivesOver, EveryAlgorithmAtEverySizeAndCount) {
  for (const int size : kSizes) {
    expect_ranks({.size = size, .transport = GetParam()}, [](Communicator& communicator) {
      for (const Configured& variant : all_variants()) {
        const Algorithm& algorithm = *variant.algorithm;
        const std::string name = variant.name();
        if (!supports(algorithm, {algorithm.collective, 0, communicator.size(), 0, variant.arguments}).ok()) {
          continue;
        }
        for (const std::uint64_t count : kCounts) {
          for (const std::uint64_t segment : {std::uint64_t{1000}, std::uint64_t{0}}) {
            const CallOptions options{.algorithm = name, .segment_bytes = segment};
            run(algorithm.collective, {communicator, options, DType::float32, ReduceOp::sum}, count);
          }
        }
      }
    });
  }
}

TEST_P(CollectivesOver, EveryElementTypeAndReduction) {
  expect_ranks({.size = 3, .transport = GetParam()}, [](Communicator& communicator) {
    for (int d = 0; d < kDTypeCount; ++d) {
      for (const ReduceOp op :
           {ReduceOp::sum, ReduceOp::product, ReduceOp::min, ReduceOp::max, ReduceOp::average}) {
        for (const Algorithm& algorithm : algorithms()) {
          const CallOptions options{.algorithm = algorithm.name, .segment_bytes = 0};
          run(algorithm.collective, {communicator, options, static_cast<DType>(d), op}, 517);
        }
      }
    }
  });
}

TEST_P(CollectivesOver, LongMessages) {
  expect_ranks({.size = 4, .transport = GetParam()}, [](Communicator& communicator) {
    for (const std::uint64_t count : kLong) {
      all_reduce({communicator, {}, DType::float32, ReduceOp::sum}, count);
      all_gather({communicator, {}, DType::int16, ReduceOp::sum}, count);
      reduce_scatter({communicator, {}, DType::bfloat16, ReduceOp::max}, count);
    }
  });
}

// Memory that kolo gave out must give the same results as plain memory, also mixed between ranks.
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

INSTANTIATE_TEST_SUITE_P(Conformance, CollectivesOver, kTransports);

}  // namespace
}  // namespace kolo::test
