// Collectives in the shared memory of one host: every code path gives the result of the schedule, for shared
// and private buffers.
#include <cstring>
#include <random>

#include <gtest/gtest.h>

#include "conformance/shared_memory.hpp"
#include "engine/shared_memory/call.hpp"
#include "engine/shared_memory/segment.hpp"
#include "support/cases.hpp"
#include "support/cluster.hpp"
#include "support/expected_bits.hpp"
#include "support/types.hpp"

namespace kolo::test {
namespace {

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
constexpr bool kInstrumented = true;  // takes twenty times as long
#else
constexpr bool kInstrumented = false;
#endif

/// The kind of memory of the ranks' arrays.
struct Placement {
  const char* name;
  /// For the `n`-th array of this rank.
  Memory (*make)(int rank, int n, std::size_t bytes);
};

constexpr Placement kPlacements[] = {
    {"private", [](int, int, std::size_t bytes) { return private_memory(bytes); }},
    {"regions", [](int, int, std::size_t bytes) { return region(bytes); }},
    {"arena", [](int, int, std::size_t bytes) { return arena_block(bytes); }},
    {"different offsets",
     [](int rank, int n, std::size_t bytes) {
       return region(bytes, static_cast<std::size_t>(64 * rank + 4096 * n));
     }},
    {"unaligned",
     [](int rank, int n, std::size_t bytes) {
       const auto odd = static_cast<std::size_t>(1 + 2 * rank + n);
       return rank == 1 ? private_memory(bytes, odd) : arena_block(bytes, odd);
     }},
    {"one private",
     [](int rank, int, std::size_t bytes) { return rank == 1 ? private_memory(bytes) : region(bytes); }},
    {"one shared",
     [](int rank, int, std::size_t bytes) { return rank == 0 ? arena_block(bytes) : private_memory(bytes); }},
    {"inputs shared, outputs not",
     [](int, int n, std::size_t bytes) { return n % 2 == 0 ? region(bytes) : private_memory(bytes); }},
    {"outputs shared, inputs not",
     [](int, int n, std::size_t bytes) { return n % 2 == 1 ? region(bytes) : private_memory(bytes); }},
};

/// Throws if `body` causes a message.
void without_messages(Communicator& c, const std::function<void()>& body) {
  const auto before = c.counters();
  body();
  const auto after = c.counters();
  if (after.messages_sent != before.messages_sent) throw std::runtime_error("ran as a schedule");
  if (after.operations == before.operations) throw std::runtime_error("ran nothing");
}

void run_everywhere(Communicator& c, DType dtype, const std::vector<std::uint64_t>& counts,
                    std::span<const Placement> placements) {
  for (const algorithms::Algorithm& algorithm : algorithms::algorithms()) {
    if (!algorithm.in_shared_memory) continue;
    for (const Placement& placement : placements) {
      for (const std::uint64_t count : counts) {
        int n = 0;
        const auto memory = [&](std::size_t bytes) { return placement.make(c.rank(), n++, bytes); };
        const CallOptions options{.algorithm = algorithm.name};
        try {
          without_messages(c, [&] {
            run(algorithm.collective, {c, options, dtype, ReduceOp::sum, memory}, count);
          });
        } catch (const std::exception& error) {
          throw std::runtime_error(std::string(placement.name) + ", " +
                                   std::string(schedule::name_of(algorithm.collective)) + " of " +
                                   std::to_string(count) + ": " + error.what());
        }
      }
    }
  }
}

/// Number of ranks, and of the cores that they may use.
struct Crowd {
  int ranks;
  int cores;
};

TEST(InSharedMemory, EverySizeThatTravelsInAnotherWay) {
  for (const Crowd& crowd : {Crowd{2, 64}, Crowd{3, 64}, Crowd{4, 64}, Crowd{5, 64}, Crowd{3, 1}}) {
    const FewCores cores(crowd.cores);
    expect_ranks({.size = crowd.ranks, .transport = "shm"}, [](Communicator& c) {
      std::vector<std::uint64_t> bytes = {0, 1, 3};
      for (const std::uint64_t limit :
           {engine::shared_memory::CallDescriptor::kInline, engine::shared_memory::kShortBytes,
            engine::shared_memory::kDescriptorBytes,
            std::size_t{engine::shared_memory::kDescriptorBytes * 2}}) {
        bytes.insert(bytes.end(), {limit - 1, limit, limit + 1});
      }
      run_everywhere(c, DType::uint8, bytes, kPlacements);
      run_everywhere(c, DType::float64,
                     {1, 4, 5, engine::shared_memory::kDescriptorBytes / 8,
                      engine::shared_memory::kDescriptorBytes / 8 + 1},
                     kPlacements);
    });
  }
}

TEST(InSharedMemory, EveryNumberOfPieces) {
  for (const Crowd& crowd : {Crowd{2, 64}, Crowd{5, 64}, Crowd{3, 1}}) {
    const FewCores cores(crowd.cores);
    const int usable = CPU_COUNT(&cores.set());
    expect_ranks({.size = crowd.ranks, .transport = "shm", .watchdog = std::chrono::seconds(230)},
                 [usable](Communicator& c) {
                   engine::shared_memory::SliceCounters counters{};
                   engine::shared_memory::Shape shape;  // whose pieces are the longest
                   shape.form.kind = schedule::SharedMemoryForm::Kind::reduce_for_all;
                   engine::shared_memory::Call call;
                   call.shape = &shape;
                   call.size = c.size();
                   call.counters = c.size() > usable ? &counters : nullptr;
                   const std::uint64_t piece = call.piece_bytes() / sizeof(double);
                   const std::uint64_t several = (kInstrumented ? 2 : 3) * piece + 7;
                   const std::span all(kPlacements);
                   run_everywhere(c, DType::float64, {piece - 1, piece, piece + 1, several}, all.first(1));
                   run_everywhere(c, DType::float64, {several}, all.subspan(3, 1));
                   run_everywhere(c, DType::float64, {piece + 1}, all.subspan(5, 1));
                 });
  }
}

TEST(InSharedMemory, SumsHaveTheBitsOfTheSchedule) {
  const algorithms::ConfiguredAlgorithm direct =
      algorithms::parse_algorithm(schedule::Collective::all_reduce, kDirect.algorithm).value();
  for (const int size : {2, 3, 5}) {
    for (const std::uint64_t count : {7u, 9u, 1023u, 1025u, 270'001u}) {
      const auto expected = expected_bits(direct, size, count);
      expect_ranks({.size = size, .transport = "shm"}, [&](Communicator& c) {
        const std::vector<float> numbers = awkward_numbers(c.rank(), count);
        for (const Placement& placement : kPlacements) {
          const std::size_t bytes = count * sizeof(float);
          const Memory in = placement.make(c.rank(), 0, bytes), out = placement.make(c.rank(), 1, bytes);
          std::memcpy(in.get(), numbers.data(), bytes);
          without_messages(c, [&] {
            c.all_reduce(ConstBuffer(in.get(), count, DType::float32),
                         Buffer(out.get(), count, DType::float32), ReduceOp::sum, kDirect);
            c.all_reduce(Buffer(in.get(), count, DType::float32), ReduceOp::sum, kDirect);
          });
          for (const Memory& sum : {in, out}) {
            if (std::memcmp(sum.get(), expected.data(), bytes) != 0)
              throw std::runtime_error(std::string(placement.name) + ": other bits than the schedule's");
          }
        }
      });
    }
  }
}

/// Numbers of both signs whose sums, products and averages are rounded or wrap around; some are subnormal in
/// float16.
void fill_awkwardly(std::byte* data, std::uint64_t count, DType dtype, unsigned seed) {
  if (is_complex(dtype)) return fill_awkwardly(data, 2 * count, part_of(dtype), seed);
  std::mt19937 random(seed);
  const bool floats = is_floating(dtype);
  for (std::uint64_t i = 0; i < count; ++i) {
    const auto bits = random();
    const double fraction = 1.0 + static_cast<double>(bits % 65'536) / 65'536.0;
    const double number = std::ldexp(bits % 3 == 0 ? -fraction : fraction, static_cast<int>(bits % 29) - 22);
    if (floats) store(data + i * size_of(dtype), dtype, number);
  }
  for (std::uint64_t i = 0; !floats && i < count * size_of(dtype); ++i)
    data[i] = static_cast<std::byte>(dtype == DType::boolean ? random() % 2 : random());
}

/// The data of every rank after reductions of every type and operation.
std::vector<std::vector<std::byte>> all_reductions(const char* transport, int size) {
  std::vector<std::vector<std::byte>> results(static_cast<std::size_t>(size));
  expect_ranks({.size = size, .transport = transport}, [&](Communicator& c) {
    std::vector<std::byte>& result = results[static_cast<std::size_t>(c.rank())];
    for (const DType dtype : kDTypes) {
      for (const ReduceOp op : kReduceOps) {
        if (!knows(dtype, op)) continue;
        for (const std::uint64_t each :
             {3u, 60u, 2001u}) {  // a rank's part: in a descriptor, beside it, long
          const std::uint64_t count = each * static_cast<std::uint64_t>(size);
          std::vector<std::byte> in(count * size_of(dtype)), out(in.size()), part(each * size_of(dtype));
          fill_awkwardly(in.data(), count, dtype,
                         static_cast<unsigned>(c.rank() * 100 + static_cast<int>(dtype)));
          const ConstBuffer from(in.data(), count, dtype);
          c.all_reduce(from, Buffer(out.data(), count, dtype), op, kDirect);
          c.reduce_scatter(from, Buffer(part.data(), each, dtype), op, {}, kDirect);
          result.insert(result.end(), out.begin(), out.end());
          result.insert(result.end(), part.begin(), part.end());
        }
      }
    }
  });
  return results;
}

TEST(InSharedMemory, EveryTypeAndReductionHasTheBitsOfTheSchedule) {
  for (const int size : {2, 3, 5}) EXPECT_EQ(all_reductions("shm", size), all_reductions("inproc", size));
}

TEST(InSharedMemory, ManyCallsAtOnceWaitedForInAnyOrder) {
  constexpr std::size_t kCalls = 200;
  constexpr std::uint64_t kLengths[] = {1, 8, 9, 0, 1000, 1024, 1025, 5000, 70'000};
  for (const int size : {2, 4, 5}) {
    expect_ranks({.size = size, .transport = "shm"}, [&](Communicator& c) {
      // One region for all tensors, at different offsets on every rank.
      std::vector<std::uint64_t> at(1, static_cast<std::uint64_t>(3 * c.rank()));
      for (std::size_t i = 0; i < kCalls; ++i) at.push_back(at.back() + kLengths[i % std::size(kLengths)]);
      for (const bool shared : {false, true}) {
        const std::size_t bytes = at.back() * sizeof(float);
        const Memory memory = shared ? region(bytes) : private_memory(bytes);
        auto* const data = reinterpret_cast<float*>(memory.get());
        for (const char* order : {"in order", "in reverse order", "not at all"}) {
          std::vector<Work> works;
          for (std::size_t i = 0; i < kCalls; ++i) {
            const Buffer tensor(data + at[i], at[i + 1] - at[i], DType::float32);
            std::fill(data + at[i], data + at[i + 1], static_cast<float>(i + 1));
            Work work = c.all_reduce_async(tensor, ReduceOp::sum, kDirect);
            if (*order == 'i') works.push_back(std::move(work));
          }
          if (std::string(order) == "in reverse order") std::reverse(works.begin(), works.end());
          for (const Work& work : works) work.wait();
          if (works.empty()) c.barrier(kBarrier);  // calls in shared memory end in order
          for (std::size_t i = 0; i < kCalls; ++i) {
            const auto sum = static_cast<float>((i + 1) * static_cast<std::size_t>(c.size()));
            if (std::any_of(data + at[i], data + at[i + 1], [&](float value) { return value != sum; }))
              throw std::runtime_error("call " + std::to_string(i) + " waited for " + order + ": wrong sum");
          }
        }
      }
    });
  }
}

/// Which rank sums a call depends on whether a rank batches it or waits for it. The bits do not depend on
/// this.
TEST(InSharedMemory, CallsThatOnlySomeRanksWaitForHaveTheBitsOfTheSchedule) {
  const algorithms::ConfiguredAlgorithm direct =
      algorithms::parse_algorithm(schedule::Collective::all_reduce, kDirect.algorithm).value();
  constexpr std::uint64_t kCount = 3000;
  for (const int size : {2, 3, 5}) {
    const auto expected = expected_bits(direct, size, kCount);
    expect_ranks({.size = size, .transport = "shm"}, [&](Communicator& c) {
      const std::vector<float> numbers = awkward_numbers(c.rank(), kCount);
      std::vector<Memory> inputs, outputs;
      for (std::size_t i = 0; i < 64; ++i) {
        for (auto* memory : {&inputs, &outputs}) memory->push_back(arena_block(kCount * sizeof(float)));
        std::memcpy(inputs.back().get(), numbers.data(), kCount * sizeof(float));
      }
      for (const unsigned waiting : {0u, 1u, 2u, 7u}) {  // of eight calls in a row
        std::mt19937 random(waiting * 100 + static_cast<unsigned>(c.rank()));
        std::vector<Work> works;
        for (std::size_t i = 0; i < inputs.size(); ++i) {
          const ConstBuffer in(inputs[i].get(), kCount, DType::float32);
          const Buffer out(outputs[i].get(), kCount, DType::float32);
          works.push_back(c.all_reduce_async(in, out, ReduceOp::sum, kDirect));
          if (random() % 8 < waiting) works.back().wait();
        }
        for (const Work& work : works) work.wait();
        for (const Memory& sum : outputs) {
          if (std::memcmp(sum.get(), expected.data(), kCount * sizeof(float)) != 0)
            throw std::runtime_error("other bits than the schedule's");
          std::memset(sum.get(), 0, kCount * sizeof(float));
        }
      }
    });
  }
}

}  // namespace
}  // namespace kolo::test
