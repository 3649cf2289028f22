// Few elements of a large vector on each rank: summed as (index, value) pairs, and beside it as a whole, for
// data of growing density. Start it with: kolo run -n 4 -- sparse_all_reduce [LENGTH]
#include <kolo/kolo.hpp>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <random>
#include <string_view>
#include <vector>

namespace {

kolo::SparseVector<float> random_vector(std::uint64_t length, double density, int rank) {
  std::mt19937 random(static_cast<unsigned>(rank));
  kolo::SparseVector<float> vector{length, {}, {}};
  for (std::uint64_t i = 0; i < length; ++i) {
    if (static_cast<double>(random()) >= density * std::mt19937::max()) continue;
    vector.indices.push_back(i);
    vector.values.push_back(static_cast<float>(i % 3));
  }
  return vector;
}

/// The least of several runs, in milliseconds.
template <typename Call>
double time_of(kolo::Communicator& communicator, Call call) {
  double best = 1e9;
  for (int run = 0; run < 5; ++run) {
    communicator.barrier();
    const auto begin = std::chrono::steady_clock::now();
    call();
    const std::chrono::duration<double, std::milli> passed = std::chrono::steady_clock::now() - begin;
    best = std::min(best, passed.count());
  }
  return best;
}

}  // namespace

int main(int argc, char** argv) {
  std::uint64_t length = 100'000;
  if (argc > 1) {
    const std::string_view text = argv[1];
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), length);
    if (argc > 2 || error != std::errc() || end != text.data() + text.size() || length == 0) {
      const bool asks = text == "--help" || text == "-h";
      std::fprintf(
          asks ? stdout : stderr,
          "usage: kolo run -n 4 -- sparse_all_reduce [LENGTH]     of the vectors; default: 100000\n");
      return asks ? 0 : 2;
    }
  }
  try {
    kolo::Communicator communicator = kolo::Communicator::create();
    kolo::SparseAllReduce sparse(communicator);
    kolo::SparseAllReduce never_dense(communicator, {.dense_share = 2});
    if (communicator.rank() == 0) {
      std::printf("%llu float32 on %d ranks\n", static_cast<unsigned long long>(length), communicator.size());
      std::printf("%8s %9s %12s %15s %14s %10s\n", "density", "sent KiB", "automatic ms", "always sparse",
                  "all_reduce ms", "sums at");
    }
    for (const double density : {0.001, 0.01, 0.03, 0.1, 0.2, 0.3, 0.5, 1.0}) {
      const auto mine = random_vector(length, density, communicator.rank());
      kolo::SparseVector<float> sum;
      const std::uint64_t before = communicator.counters().bytes_sent;
      sum = sparse.sum(mine);
      const std::uint64_t sent = communicator.counters().bytes_sent - before;
      const double automatic = time_of(communicator, [&] { sum = sparse.sum(mine); });
      const double always = time_of(communicator, [&] { never_dense.sum(mine); });

      std::vector<float> whole(length);
      for (std::size_t k = 0; k < mine.indices.size(); ++k) whole[mine.indices[k]] = mine.values[k];
      communicator.all_reduce(whole);
      for (std::size_t k = 0; k < sum.indices.size(); ++k) {
        if (whole[sum.indices[k]] != sum.values[k]) return 1;
      }
      const double dense = time_of(communicator, [&] { communicator.all_reduce(whole); });
      if (communicator.rank() == 0) {
        std::printf("%8g %9.1f %12.2f %15.2f %14.2f %10zu\n", density, static_cast<double>(sent) / 1024,
                    automatic, always, dense, sum.indices.size());
      }
    }
    return 0;
  } catch (const kolo::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
