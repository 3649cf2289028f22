#include "bench/loop.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <optional>

#include "bench/pattern.hpp"

namespace kolo::bench {
namespace {

constexpr std::size_t kPage = 4096;
constexpr int kSpoiled = 0x5A;

std::size_t round_to_pages(std::size_t bytes) {
  return (bytes + kPage - 1) / kPage * kPage;
}

// The data of one case on one rank: where it lies, and how it is written and judged.
class Data {
 public:
  Data(Contestant& contestant, const Case& what)
      : what_(what),
        rank_(contestant.rank()),
        pattern_(what.dtype, is_reducing(what.kind) ? std::optional(what.op) : std::nullopt, what.ranks) {
    const std::size_t element = size_of(what.dtype);
    const std::size_t in_bytes = what.in_count(rank_) * element, out_bytes = what.out_count(rank_) * element;
    // Where only one of the two exists there is nothing to overlap.
    in_place_ = what.in_place && in_bytes > 0 && out_bytes > 0;
    std::byte* base = contestant.memory(round_to_pages(in_bytes) + round_to_pages(out_bytes) + kPage);
    in_ = out_ = base;
    if (!in_place_) {
      out_ = base + round_to_pages(in_bytes);
    } else if (in_bytes < out_bytes) {
      in_ = base + what.offset_in_place(rank_) * element;
    } else {
      out_ = base + what.offset_in_place(rank_) * element;
    }
  }

  void* in() const { return in_; }
  void* out() const { return out_; }

  void write(std::uint64_t iteration) {
    // First spoil, so that yesterday's result cannot pass for today's; in place the input is on top.
    std::memset(out_, kSpoiled, what_.out_count(rank_) * size_of(what_.dtype));
    pattern_.fill(in_, what_.in_count(rank_), rank_, iteration);
  }

  std::uint64_t count_wrong(std::uint64_t iteration) {
    const std::uint64_t count = what_.count;
    const auto mine = static_cast<std::uint64_t>(rank_) * count;
    const std::size_t part = count * size_of(what_.dtype);
    std::uint64_t wrong = 0;
    if (what_.out_count(rank_) == 0) return 0;
    switch (what_.kind) {
      case Kind::all_reduce:
      case Kind::reduce:
        return pattern_.count_wrong_reduced(out_, count, iteration);
      case Kind::reduce_scatter:
        return pattern_.count_wrong_reduced(out_, count, iteration, mine);
      case Kind::all_gather:
      case Kind::gather:
        for (int source = 0; source < what_.ranks; ++source) {
          wrong +=
              pattern_.count_wrong(out_ + static_cast<std::size_t>(source) * part, count, source, iteration);
        }
        return wrong;
      case Kind::all_to_all:
        for (int source = 0; source < what_.ranks; ++source) {
          wrong += pattern_.count_wrong(out_ + static_cast<std::size_t>(source) * part, count, source,
                                        iteration, mine);
        }
        return wrong;
      case Kind::broadcast:
        return pattern_.count_wrong(out_, count, 0, iteration);
      case Kind::scatter:
        return pattern_.count_wrong(out_, count, 0, iteration, mine);
      case Kind::send_recv:
        return pattern_.count_wrong(out_, count, rank_ ^ 1, iteration);
      case Kind::copy:
        return pattern_.count_wrong(out_, count, rank_, iteration);
      case Kind::barrier:
        return 0;
    }
    return 0;
  }

 private:
  Case what_;
  int rank_;
  Pattern pattern_;
  bool in_place_ = false;
  std::byte* in_ = nullptr;
  std::byte* out_ = nullptr;
};

int iterations_for(const Policy& policy, double microseconds) {
  if (policy.iterations > 0) return policy.iterations;
  const double wanted = std::ceil(policy.min_seconds * 1e6 / std::max(microseconds, 0.1));
  return std::max(policy.min_iterations, static_cast<int>(std::min<double>(wanted, policy.max_iterations)));
}

}  // namespace

Sample measure(Contestant& contestant, const Case& what, const std::string& algorithm, const Policy& policy,
               std::uint64_t& iteration) {
  Data data(contestant, what);
  contestant.prepare(what, algorithm, data.in(), data.out());
  // Half of a round trip is what a message takes.
  const double calls = what.kind == Kind::send_recv ? 2 : 1;
  std::uint64_t wrong = 0;
  const auto once = [&] {
    data.write(++iteration);
    contestant.barrier();
    const auto begin = std::chrono::steady_clock::now();
    contestant.call();
    const auto end = std::chrono::steady_clock::now();
    wrong += data.count_wrong(iteration);
    return std::chrono::duration<double, std::micro>(end - begin).count() / calls;
  };

  std::vector<double> warm;
  const int warmup = policy.iterations > 0 ? policy.warmup : std::max(policy.warmup, 1);
  for (int i = 0; i < warmup; ++i) warm.push_back(once());
  std::int64_t count = 0;
  if (contestant.rank() == 0) {
    count = iterations_for(policy, warm.empty() ? 0 : *std::min_element(warm.begin(), warm.end()));
  }
  contestant.share(&count, sizeof(count));

  std::vector<double> mine;
  mine.reserve(static_cast<std::size_t>(count) + 1);
  for (std::int64_t i = 0; i < count; ++i) mine.push_back(once());
  mine.push_back(static_cast<double>(wrong));

  const std::size_t width = mine.size();
  std::vector<double> all(contestant.rank() == 0 ? width * static_cast<std::size_t>(contestant.size()) : 0);
  contestant.collect(mine.data(), width, all.data());
  Sample sample{algorithm, {}, 0};
  if (contestant.rank() != 0) return sample;
  sample.times_us.assign(width - 1, 0.0);
  for (std::size_t r = 0; r < static_cast<std::size_t>(contestant.size()); ++r) {
    for (std::size_t i = 0; i + 1 < width; ++i) {
      sample.times_us[i] = std::max(sample.times_us[i], all[r * width + i]);
    }
    sample.wrong += static_cast<std::uint64_t>(all[r * width + width - 1]);
  }
  return sample;
}

}  // namespace kolo::bench
