// bench_batch: many short all_reduces one by one, started at once, and as a CallBatch, in turns. A launcher
// starts the ranks: kolo run -n 2 -- bench_batch [CALLS [BYTES...]]
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

#include "kolo/kolo.hpp"

namespace {

using Clock = std::chrono::steady_clock;

/// The slowest rank's time for the calls, in microseconds. Throws if a sum is wrong.
double time_of(kolo::Communicator& communicator, std::vector<std::vector<float>>& data,
               const std::function<void()>& calls) {
  for (auto& buffer : data) std::ranges::fill(buffer, 1.0f);
  communicator.barrier();
  const auto begin = Clock::now();
  calls();
  const double own = std::chrono::duration<double, std::micro>(Clock::now() - begin).count();
  const auto ranks = static_cast<float>(communicator.size());
  for (const auto& buffer : data) {
    if (std::ranges::count(buffer, ranks) != std::ssize(buffer)) throw std::runtime_error("a wrong sum");
  }
  return communicator.all_reduce(own, kolo::ReduceOp::max);
}

double median(std::vector<double>& values) {
  std::ranges::nth_element(values, values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2));
  return values[values.size() / 2];
}

void measure(kolo::Communicator& communicator, std::size_t calls, std::size_t bytes) {
  constexpr int kRounds = 60;
  std::vector<std::vector<float>> data(calls, std::vector<float>(bytes / sizeof(float)));
  kolo::CallBatch kept(communicator);
  for (auto& buffer : data) kept.all_reduce(buffer);
  const std::vector<std::function<void()>> ways{
      [&] {
        for (auto& buffer : data) communicator.all_reduce(buffer);
      },
      [&] {
        std::vector<kolo::Work> works;
        for (auto& buffer : data) works.push_back(communicator.all_reduce_async(buffer));
        kolo::wait_all(works);
      },
      [&] { kept.run(); },
      [&] {
        kolo::CallBatch batch(communicator);
        for (auto& buffer : data) batch.all_reduce(buffer);
        batch.run();
      },
  };
  std::vector<std::vector<double>> times(ways.size());
  for (int round = -kRounds / 10; round < kRounds; ++round) {
    for (std::size_t way = 0; way < ways.size(); ++way) {
      const double time = time_of(communicator, data, ways[way]);
      if (round >= 0) times[way].push_back(time);
    }
  }
  if (communicator.rank() > 0) return;
  std::printf(
      "%4zu x %7zu B  one by one %9.1f us   at once %9.1f us   CallBatch %9.1f us, collected anew %9.1f us\n",
      calls, bytes, median(times[0]), median(times[1]), median(times[2]), median(times[3]));
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  auto communicator = kolo::Communicator::create();
  const std::vector<std::string> given(argv + 1, argv + argc);
  const std::size_t calls = given.empty() ? 200 : std::stoul(given[0]);
  std::vector<std::size_t> sizes{8, 1024, 4096, 65'536};
  if (given.size() > 1) sizes.clear();
  for (std::size_t i = 1; i < given.size(); ++i) sizes.push_back(std::stoul(given[i]));
  for (const std::size_t bytes : sizes) measure(communicator, calls, bytes);
}
