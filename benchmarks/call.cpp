// bench_call: an all_reduce of 8 bytes in shared memory, both ranks in one thread. Rank 1 starts its call
// just before rank 0 calls, so neither waits, and no second core adds noise.
#include <benchmark/benchmark.h>

#include <thread>

#include "kolo/kolo.hpp"

namespace {

struct Ranks {
  kolo::Communicator low, high;
};

/// Two ranks that meet over the transport shm, as processes do.
Ranks connect() {
  Ranks ranks;
  const auto store = kolo::make_memory_store();
  kolo::Options options;
  options.transports = "shm";
  std::thread other([&] { ranks.high = kolo::Communicator::create(store, 1, 2, options); });
  ranks.low = kolo::Communicator::create(store, 0, 2, options);
  other.join();
  return ranks;
}

/// A function of its own, so that callgrind can collect in it alone.
[[gnu::noinline]] void all_reduce_of_8_bytes(benchmark::State& state, Ranks& ranks) {
  float low[2] = {}, high[2] = {};
  for (auto _ : state) {
    const kolo::Work started = ranks.high.all_reduce_async(high);
    ranks.low.all_reduce(low);
    started.wait();
  }
}

}  // namespace

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  Ranks ranks = connect();
  // A fixed number: callgrind's count of instructions divided by it is the cost of a call.
  benchmark::RegisterBenchmark("all_reduce/8/one_thread", [&](auto& state) {
    all_reduce_of_8_bytes(state, ranks);
  })->Iterations(100'000);
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return 0;
}
