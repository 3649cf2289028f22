// CallBatch: many calls that start together.
#include <algorithm>
#include <atomic>
#include <cmath>
#include <deque>
#include <functional>
#include <semaphore>
#include <vector>

#include "kolo/call_batch.hpp"
#include "support/cluster.hpp"
#include "support/pattern.hpp"
#include "support/require.hpp"
#include "support/transports.hpp"

namespace kolo::test {
namespace {

class BatchOver : public ::testing::TestWithParam<const char*> {};

std::string thrown_by(const std::function<void()>& call) {
  try {
    call();
  } catch (const InvalidArgumentError& error) {
    return error.what();
  }
  return {};
}

/// The buffers of many calls: with the same seed they are filled alike.
class Buffers {
 public:
  Buffers(int rank, int seed) : rank_(rank), seed_(seed) {}

  Buffer next(std::uint64_t count, DType dtype) {
    all_.push_back({std::vector<std::byte>(count * size_of(dtype)), dtype});
    fill(all_.size() - 1);
    return {all_.back().bytes.data(), count, dtype};
  }
  void refill(int seed) {
    seed_ = seed;
    for (std::size_t i = 0; i < all_.size(); ++i) fill(i);
  }
  bool operator==(const Buffers& other) const { return all_ == other.all_; }

 private:
  struct Memory {
    std::vector<std::byte> bytes;
    DType dtype;
    bool operator==(const Memory&) const = default;
  };

  void fill(std::size_t number) {
    auto& [bytes, dtype] = all_[number];
    const std::size_t first = number * 3 + static_cast<std::size_t>(seed_ + rank_ * 5);
    for (std::size_t i = 0; i < bytes.size() / size_of(dtype); ++i)
      store(bytes.data() + i * size_of(dtype), dtype, static_cast<double>((i * 7 + first) % 9));
  }

  int rank_, seed_;
  std::deque<Memory> all_;
};

Buffer part(const Buffer& whole, std::uint64_t begin, std::uint64_t count) {
  return {static_cast<std::byte*>(whole.data) + begin * size_of(whole.dtype), count, whole.dtype};
}

/// Every collective in every form, one by one (Communicator) or collected (CallBatch).
template <typename Caller>
void call_all(Caller& caller, const Communicator& c, Buffers& buffers,
              const std::vector<std::uint64_t>& counts) {
  const auto size = static_cast<std::uint64_t>(c.size()), rank = static_cast<std::uint64_t>(c.rank());
  const int last = c.size() - 1;
  const auto at = [&](int root, std::uint64_t count) { return c.rank() == root ? count : 0; };
  for (const std::uint64_t count : counts) {
    for (const DType dtype : {DType::float32, DType::uint8, DType::int64}) {
      const auto next = [&](std::uint64_t elements) { return buffers.next(elements, dtype); };
      caller.all_reduce(next(count), ReduceOp::max);
      caller.all_reduce(next(count), next(count));
      caller.reduce_scatter(next(count * size), next(count));
      const Buffer scattered = next(count * size);
      caller.reduce_scatter(scattered, part(scattered, rank * count, count));
      caller.all_gather(next(count), next(count * size));
      const Buffer gathered = next(count * size);
      caller.all_gather(part(gathered, rank * count, count), gathered);
      for (const int root : {0, last}) {
        caller.broadcast(next(count), root);
        caller.reduce(next(count), next(count), root);
        const Buffer reduced = next(count);
        caller.reduce(reduced, reduced, root, ReduceOp::min);
        caller.scatter(next(at(root, count * size)), next(count), root);
        caller.gather(next(count), next(at(root, count * size)), root);
      }
      caller.all_to_all(next(count * size), next(count * size));
      caller.all_to_all(next(count * size));
      caller.scan(next(count), next(count));
      const Buffer prefix = next(count);
      caller.scan(prefix, prefix);
    }
  }
}

TEST_P(BatchOver, DoesWhatTheCallsDoOneByOneAlsoAgain) {
  for (const int size : {1, 2, 3, 4}) {
    expect_ranks({.size = size, .transport = GetParam()}, [](Communicator& c) {
      const std::vector<std::uint64_t> counts{3, 0, 1, 40'000, 129, 1000};  // a long one among short ones
      CallBatch batch(c);
      Buffers got(c.rank(), 0);
      call_all(batch, c, got, counts);
      for (const int seed : {0, 4, 7}) {
        Buffers expected(c.rank(), seed);
        call_all(c, c, expected, counts);
        got.refill(seed);
        if (seed == 4) {
          batch.run();
        } else {
          wait_all(batch.start());
        }
        require(got == expected, "other results than one by one");
      }
    });
  }
}

TEST_P(BatchOver, ShortCallsAreOne) {
  expect_ranks({.size = 3, .transport = GetParam()}, [](Communicator& c) {
    std::vector<std::vector<float>> data(50, std::vector<float>(100, 1));
    std::vector<float> other(100, 1), length(100'000, 1);
    std::vector<double> numbers(100, 1), labelled(100, 1);
    CallBatch batch(c);
    for (auto& one : data) batch.all_reduce(one);
    batch.all_reduce(other, ReduceOp::max);
    batch.all_reduce(numbers);
    batch.all_reduce(length);
    batch.all_reduce(labelled, ReduceOp::sum, {.label = "another purpose"});
    require(batch.size() == 54, "not the number of calls");
    for (int round = 0; round < 2; ++round) {
      const std::uint64_t before = c.counters().operations;
      const std::vector<Work> works = batch.start();
      require(works.size() == 54, "not a Work for each call");
      require(c.counters().operations - before == 5, "not as many calls as kinds");
      wait_all(works);
      require(works[0].algorithm() == works[49].algorithm(), "two operations");
    }
    for (const auto& one : data) require(one == std::vector<float>(100, 9), "a wrong sum");
    require(other.back() == 1 && length.back() == 9 && numbers.back() == 9 && labelled[0] == 9,
            "a wrong sum");
    batch.clear();
    require(batch.size() == 0 && batch.start().empty(), "calls are left");
    batch.run();
    batch.all_reduce(other);
    batch.run();
    require(other == std::vector<float>(100, 3), "a cleared batch takes no calls");
  });
}

/// What is no plain sum of plain data.
TEST_P(BatchOver, KeepsWhatTheCallsAskFor) {
  expect_ranks({.size = 3, .transport = GetParam()}, [](Communicator& c) {
    const auto rank = static_cast<float>(c.rank());
    std::vector<float> scaled(5, 1), plain(5, 1), mean(4, rank), mine(7, rank + 1), all(12), large(64, 1e6f),
        small(3, 1e-3f);
    const std::vector<int> counts{3, 0, 9};
    const std::vector<float> own(static_cast<std::size_t>(counts[static_cast<std::size_t>(c.rank())]), rank);
    const Reduction product = Reduction::custom<float>("product", [](float a, float b) { return a * b; });
    CallBatch batch(c);
    batch.all_reduce(scaled, Reduction::premultiplied_sum(rank));
    batch.all_reduce(plain);
    batch.all_reduce(mean, ReduceOp::average);
    batch.all_reduce(mine, product);
    batch.all_gather(own, all, counts);
    batch.all_reduce(large, ReduceOp::sum, {.algorithm = "ring", .wire = Wire::int8});
    batch.all_reduce(small, ReduceOp::sum, {.algorithm = "ring", .wire = Wire::int8});
    batch.run();
    require(scaled == std::vector<float>(5, 3) && plain == std::vector<float>(5, 3), "a factor");
    require(mean == std::vector<float>(4, 1) && mine == std::vector<float>(7, 6), "an operation");
    require(std::ranges::count(all, 0) == 3 && std::ranges::count(all, 2) == 9, "uneven counts");
    require(std::abs(small[2] - 3e-3f) < 1e-4f, "numbers of two calls share a scale");
  });
}

TEST_P(BatchOver, SendsAndReceivesInAnyOrder) {
  expect_ranks({.size = 3, .transport = GetParam()}, [](Communicator& c) {
    const int next = (c.rank() + 1) % 3, before = (c.rank() + 2) % 3;
    for (const std::size_t count : {std::size_t{0}, std::size_t{9}, std::size_t{500'000}}) {
      std::vector<int> first(count, c.rank()), second(count, c.rank() + 10), got(count), got_second(count),
          single(1, c.rank()), got_single(1), sum(3, 1);
      CallBatch batch(c);
      batch.send(first, next, 5);  // a blocking send would wait for ever
      batch.send(second, next, 5);
      batch.all_reduce(sum);
      batch.recv(got, before, 5);
      batch.recv(got_second, before, 5);
      batch.recv(got_single, before, 6);
      const std::vector<Work> works = batch.start();
      c.send(single, next, 6);  // matches a receive of the batch
      wait_all(works);
      require(got == std::vector<int>(count, before) && got_second == std::vector<int>(count, before + 10),
              "another message");
      require(got_single[0] == before && sum[2] == 3 && works[5].source() == before, "another message");
    }
    c.barrier();
  });
}

TEST_P(BatchOver, CallbacksAndWaitAnySeeTheResults) {
  expect_ranks({.size = 2, .transport = GetParam()}, [](Communicator& c) {
    for (int round = 0; round < 30; ++round) {
      std::vector<std::vector<float>> data(20, std::vector<float>(33, 1));
      std::vector<int> never(1);
      std::counting_semaphore<> called{0};
      std::atomic<int> wrong = 0;
      std::vector<Work> works;
      {
        CallBatch batch(c);
        for (auto& one : data) batch.all_reduce(one);
        works = batch.start();
      }  // the calls go on
      for (std::size_t i = 0; i < data.size(); ++i) {
        works[i].then([&, i](const Work& work) {
          if (work.error() != nullptr || data[i] != std::vector<float>(33, 2)) ++wrong;
          called.release();
        });
      }
      for (std::size_t i = 0; i < data.size(); ++i) called.acquire();
      require(wrong == 0, "called before the results were there");

      CallBatch batch(c);
      for (auto& one : data) batch.all_reduce(one);
      batch.recv(never, 1 - c.rank());
      works = batch.start();
      std::rotate(works.begin(), works.end() - 1, works.end());
      const std::size_t done = wait_any(works);
      require(done == 1 && data.back() == std::vector<float>(33, 4), "done before the results were there");
      require(thrown_by([&] { static_cast<void>(batch.start()); }).find("under way") != std::string::npos,
              "started while a call is under way");
      c.barrier();
      c.send(std::vector<int>{1}, 1 - c.rank());
      works[0].wait();
      batch.clear();
    }
    c.barrier();
  });
}

TEST_P(BatchOver, AWrongCallIsNamedBeforeAnyStarts) {
  expect_ranks({.size = 2, .transport = GetParam()}, [](Communicator& c) {
    std::vector<float> data(4, 1), five(5, 1);
    std::vector<int> word(1);
    const auto expect = [](const std::function<void()>& call, const std::string& said) {
      const std::string error = thrown_by(call);
      require(error.find(said) != std::string::npos, "'" + error + "' is not: " + said);
    };
    const std::string second = "call 1 of the batch: rank " + std::to_string(c.rank()) + ": ";
    CallBatch batch(c);
    batch.all_reduce(data);
    expect([&] { batch.reduce(data, data, 2); }, second + "reduce: root 2");
    expect([&] { batch.all_gather(data, five); }, second + "all_gather: ");
    expect([&] { batch.send(data, 7); }, second + "send: peer 7");
    expect([&] { batch.recv(word, 1, -1); }, second + "recv: tag -1");
    expect([&] { batch.all_reduce(word, ReduceOp::average); }, second + "all_reduce: ");
    require(batch.size() == 1, "a call that was refused is part of the batch");
    for (const bool is_alone : {true, false}) {
      batch.clear();
      batch.all_reduce(data);
      batch.send(word, 1 - c.rank());
      batch.all_reduce(five, ReduceOp::max, {.algorithm = "rnig"});
      if (!is_alone) batch.all_reduce(five, ReduceOp::max, {.algorithm = "rnig"});
      const std::uint64_t before = c.counters().operations;
      expect([&] { static_cast<void>(batch.start()); }, "call 2 of the batch: ");
      expect([&] { batch.run(); }, "rnig");
      require(c.counters().operations == before && data[0] == 1, "a call has started");
    }
    c.all_reduce(data);
    require(data[0] == 2, "a call has taken a number");
    expect([] { CallBatch none{Communicator()}; }, "has no group");
  });
}

TEST_P(BatchOver, OtherBatchesOfOtherRanksAreAMismatch) {
  const auto start = [](Communicator& c, const std::vector<std::size_t>& counts) {
    std::vector<std::vector<float>> data;
    for (const std::size_t count : counts) data.emplace_back(count, 1.0f);
    CallBatch batch(c);
    for (auto& one : data) batch.all_reduce(one);
    batch.run();
  };
  const auto expect = [&](const std::vector<std::size_t>& low, const std::vector<std::size_t>& high,
                          const std::vector<std::string>& said) {
    expect_mismatch(
        GetParam(), 2, [&](Communicator& c) { start(c, c.rank() == 0 ? low : high); }, said);
  };
  expect({3, 4}, {3, 5}, {"sum of 7 float32", "sum of 8 float32", "2 calls of a batch"});
  expect({3, 4}, {3, 2, 2}, {"2 calls of a batch", "3 calls of a batch"});
  expect({3, 4}, {7}, {"2 calls of a batch", "all_reduce(sum of 7 float32"});
  expect({3, 4}, {4, 3}, {"2 calls of a batch", "the lengths of a batch's calls"});
}

TEST_P(BatchOver, AFailureEndsAllItsCalls) {
  expect_ranks({.size = 2, .transport = GetParam()}, [](Communicator& c) {
    std::vector<std::vector<float>> data(8, std::vector<float>(10, 1));
    std::vector<float> length(50'000, 1);
    c.barrier();
    CallBatch batch(c);
    for (auto& one : data) batch.all_reduce(one);
    batch.all_reduce(length);
    std::vector<Work> works;
    if (c.rank() == 0) {
      works = batch.start();
    } else {
      c.abort("enough");
    }
    const auto is_aborted = [](const std::function<void()>& call, const std::string& said) {
      try {
        call();
      } catch (const AbortedError& error) {
        return std::string(error.what()).find(said) != std::string::npos;
      }
      return false;
    };
    for (const Work& work : works) require(is_aborted([&] { work.wait(); }, "rank 1 aborted"), "no failure");
    if (c.rank() == 0) require(is_aborted([&] { works[3].wait(); }, "8 calls of a batch"), "the call");
    require(is_aborted([&] { batch.run(); }, "enough"), "a call after a failure");
    require(data[0][0] == 1, "a call that has failed has written");
  });
}

INSTANTIATE_TEST_SUITE_P(Conformance, BatchOver, kTransports, kTransportNames);

}  // namespace
}  // namespace kolo::test
