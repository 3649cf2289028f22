// mean_step: what a step with one all_reduce takes where ranks do nothing else but compute and add up,
// without barriers. Only kolo's public API, or MPI, so that builds of any age and other libraries run the
// same program: scripts/compare-waiting compiles it against each.
//
//     mean_step BYTES shared|private COMPUTE_US SECONDS    a rank; rank 0 prints a line of JSON
//     mean_step neighbour BUSY_US EVERY_US                 keeps a core busy so long in each EVERY_US
#include <sys/resource.h>
#include <time.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#ifdef MEAN_STEP_MPI
#include <mpi.h>
struct Ranks {
  Ranks() { MPI_Init(nullptr, nullptr); }
  ~Ranks() { MPI_Finalize(); }
  int rank() const { return number(MPI_Comm_rank); }
  int size() const { return number(MPI_Comm_size); }
  float* memory(std::size_t count, bool) { return static_cast<float*>(std::aligned_alloc(4096, count * 4)); }
  void add_up(float* data, std::size_t count) {
    MPI_Allreduce(MPI_IN_PLACE, data, static_cast<int>(count), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
  }
  static int number(int (*ask)(MPI_Comm, int*)) {
    int answer = 0;
    ask(MPI_COMM_WORLD, &answer);
    return answer;
  }
};
#else
#include <kolo/kolo.hpp>

#include <optional>
struct Ranks {
  kolo::Communicator comm = kolo::Communicator::create();
  std::optional<kolo::SharedMemory> shared = {};
  int rank() const { return comm.rank(); }
  int size() const { return comm.size(); }
  float* memory(std::size_t count, bool is_shared) {
    if (!is_shared) return static_cast<float*>(std::aligned_alloc(4096, count * 4));
    shared.emplace(count * 4);
    return reinterpret_cast<float*>(shared->data());
  }
  void add_up(float* data, std::size_t count) {
    comm.all_reduce(kolo::Buffer(data, count, kolo::DType::float32));
  }
};
#endif

namespace {

using Clock = std::chrono::steady_clock;

double us_since(Clock::time_point begin) {
  return std::chrono::duration<double, std::micro>(Clock::now() - begin).count();
}

/// Processor time, not time: a rank that loses its core computes as much.
void compute(double us) {
  timespec now{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  const auto in_us = [&] {
    return static_cast<double>(now.tv_sec) * 1e6 + static_cast<double>(now.tv_nsec) / 1e3;
  };
  for (const double end = in_us() + us; in_us() < end;) ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
}

[[noreturn]] void be_a_neighbour(double busy_us, double every_us) {
  for (auto next = Clock::now();; next += std::chrono::microseconds(static_cast<long>(every_us))) {
    std::this_thread::sleep_until(next);
    const auto begin = Clock::now();
    while (us_since(begin) < busy_us) {
    }
    if (us_since(next) > 2 * every_us) next = Clock::now();  // it does not catch up
  }
}

/// The mean, the median and the 99th percentile. Reorders the steps.
std::array<double, 3> statistics_of(std::vector<double>& steps) {
  const auto at = [&](double q) {
    const auto nth = steps.begin() + static_cast<std::ptrdiff_t>(q * static_cast<double>(steps.size() - 1));
    std::nth_element(steps.begin(), nth, steps.end());
    return *nth;
  };
  const double sum = std::accumulate(steps.begin(), steps.end(), 0.0);
  return {sum / static_cast<double>(steps.size()), at(0.5), at(0.99)};
}

/// Where each of them lies with 95 %: bootstrap over stretches of steps, since what disturbs one disturbs the
/// next.
std::array<std::pair<double, double>, 3> intervals_of(const std::vector<double>& steps) {
  const std::size_t stretches = std::min<std::size_t>(50, steps.size()), length = steps.size() / stretches;
  std::array<std::vector<double>, 3> found;
  std::vector<double> sample(stretches * length);
  std::minstd_rand random(1);
  for (int i = 0; i < 100; ++i) {
    for (auto to = sample.begin(); to != sample.end(); to += static_cast<std::ptrdiff_t>(length))
      std::copy_n(steps.begin() + static_cast<std::ptrdiff_t>(random() % stretches * length), length, to);
    const auto values = statistics_of(sample);
    for (std::size_t v = 0; v < values.size(); ++v) found[v].push_back(values[v]);
  }
  std::array<std::pair<double, double>, 3> intervals;
  for (std::size_t v = 0; v < found.size(); ++v) {
    std::sort(found[v].begin(), found[v].end());
    intervals[v] = {found[v][2], found[v][97]};
  }
  return intervals;
}

struct Used {
  double cpu_us, switches;
  static Used now() {
    rusage used{};
    ::getrusage(RUSAGE_SELF, &used);
    const auto us = [](const timeval& t) {
      return static_cast<double>(t.tv_sec) * 1e6 + static_cast<double>(t.tv_usec);
    };
    return {us(used.ru_utime) + us(used.ru_stime), static_cast<double>(used.ru_nvcsw + used.ru_nivcsw)};
  }
};

}  // namespace

int main(int argc, char** argv) {
  if (argc == 4 && std::strcmp(argv[1], "neighbour") == 0)
    be_a_neighbour(std::atof(argv[2]), std::atof(argv[3]));
  if (argc != 5) return std::fputs("mean_step BYTES shared|private COMPUTE_US SECONDS\n", stderr), 2;
  const std::size_t count = std::max<std::size_t>(std::strtoull(argv[1], nullptr, 10) / 4, 1);
  const double computing = std::atof(argv[3]), seconds = std::atof(argv[4]);
  Ranks ranks;
  const int n = ranks.size();
  float* const data = ranks.memory(count, std::strcmp(argv[2], "shared") == 0);
  // Sums of sums: they grow n times a step, so the input is written anew before a float overflows.
  const int row = std::max(1, static_cast<int>(100 / std::log2(std::max(n, 2))));
  const auto value = [](std::size_t at, int rank) {
    return static_cast<float>(1 + at % 5 + static_cast<std::size_t>(rank));
  };
  std::vector<double> steps;  // of the rows, or of each call where reading a clock is little of it
  const bool each = count >= 4096 || computing > 0;
  double timed_us = 0;
  long calls = 0, wrong = 0;
  const auto run = [&](int rows) {
    for (int r = 0; r < rows; ++r) {
      for (std::size_t i = 0; i < count; ++i) data[i] = value(i, ranks.rank());
      const auto begin = Clock::now();
      auto last = begin;
      for (int step = 0; step < row; ++step) {
        compute(computing);
        ranks.add_up(data, count);
        if (!each) continue;
        const auto now = Clock::now();
        steps.push_back(std::chrono::duration<double, std::micro>(now - last).count());
        last = now;
      }
      const double us = us_since(begin);
      timed_us += us;
      calls += row;
      if (!each) steps.push_back(us / row);
      for (std::size_t i = 0; i < count; ++i) {
        double sum = 0;
        for (int rank = 0; rank < n; ++rank) sum += value(i, rank);
        const double expected = sum * std::pow(n, row - 1);
        wrong += std::abs(static_cast<double>(data[i]) / expected - 1) > 1e-4;
      }
    }
  };
  // Rank 0 says when it is enough, in the last of the values that all ranks add up.
  const auto until = [&](double us) {
    const auto begin = Clock::now();
    for (int rows = 1;; rows = std::min(rows * 2, 64)) {
      run(rows);
      data[0] = ranks.rank() == 0 && us_since(begin) >= us ? 1.0F : 0.0F;
      ranks.add_up(data, 1);
      if (data[0] != 0) return;
    }
  };
  until(0.1e6);
  steps.clear(), timed_us = 0, calls = 0;
  const Used before = Used::now();
  const auto begin = Clock::now();
  until(seconds * 1e6);
  const double share = timed_us / us_since(begin);  // the rest wrote and verified
  const Used after = Used::now();
  if (ranks.rank() == 0) {
    const auto [mean, median, p99] = intervals_of(steps);
    const auto values = statistics_of(steps);
    std::printf(
        "{\"mean_us\": %.3f, \"mean_low_us\": %.3f, \"mean_high_us\": %.3f, \"median_us\": %.3f, "
        "\"median_low_us\": %.3f, \"median_high_us\": %.3f, \"p99_us\": %.3f, \"p99_low_us\": %.3f, "
        "\"p99_high_us\": %.3f, \"calls\": %ld, \"cpu_us\": %.3f, \"switches\": %.4f}\n",
        timed_us / static_cast<double>(calls), mean.first, mean.second, values[1], median.first,
        median.second, values[2], p99.first, p99.second, calls,
        share * (after.cpu_us - before.cpu_us) / static_cast<double>(calls),
        (after.switches - before.switches) / static_cast<double>(calls));
  }
  if (wrong > 0) std::fprintf(stderr, "rank %d: %ld wrong sums\n", ranks.rank(), wrong);
  return wrong > 0;
}
