#include "bench/loop.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>

#include <time.h>

#include "bench/pattern.hpp"

namespace kolo::bench {
namespace {

constexpr std::size_t kLine = 64;
constexpr int kSpoiled = 0x5A;

std::size_t round_to_lines(std::size_t bytes) {
  return (bytes + kLine - 1) / kLine * kLine;
}

// The data of one case on one rank: allocates, writes and verifies it.
class Data {
 public:
  Data(Contestant& contestant, const Case& what)
      : what_(what),
        rank_(contestant.rank()),
        pattern_(what.dtype, what.reduction(), what.ranks),
        noise_(what.wire, what.op, what.ranks) {
    const std::size_t element = size_of(what.dtype);
    const std::size_t in_bytes = what.in_count(rank_) * element, out_bytes = what.out_count(rank_) * element;
    // If only one of input and output exists, they cannot overlap.
    const bool in_place = what.in_place && in_bytes > 0 && out_bytes > 0;
    const std::size_t apart = in_place ? 0 : round_to_lines(in_bytes);
    const std::size_t stride = apart + round_to_lines(in_place ? std::max(in_bytes, out_bytes) : out_bytes);
    const std::size_t inside = in_place ? what.offset_in_place(rank_) * element : 0;
    const auto pieces = static_cast<std::size_t>(what.tensors) * static_cast<std::size_t>(what.steps);
    std::byte* base = contestant.memory(std::max<std::size_t>(stride, 1) * pieces);
    for (std::size_t i = 0; i < pieces; ++i, base += stride) {
      const bool in_is_inside = in_bytes < out_bytes;
      pieces_.push_back({base + (in_is_inside ? inside : 0), base + apart + (in_is_inside ? 0 : inside)});
    }
  }

  std::span<const Piece> pieces() const { return pieces_; }

  void write(std::uint64_t iteration) {
    for (std::size_t i = 0; i < pieces_.size(); ++i) {
      // The output is overwritten first, so that an old result cannot pass as a new one.
      std::memset(pieces_[i].out, kSpoiled, what_.out_count(rank_) * size_of(what_.dtype));
      if (rounds()) {
        noise_.fill(static_cast<float*>(pieces_[i].in), what_.count, rank_, number_of(iteration, i));
      } else {
        pattern_.fill(pieces_[i].in, what_.in_count(rank_), rank_, number_of(iteration, i));
      }
    }
  }

  std::uint64_t count_wrong(std::uint64_t iteration) {
    std::uint64_t wrong = 0;
    if (what_.out_count(rank_) == 0) return 0;
    for (std::size_t i = 0; i < pieces_.size(); ++i) {
      if (rounds()) {
        const auto* out = static_cast<const float*>(pieces_[i].out);
        wrong += noise_.count_wrong(out, what_.count, number_of(iteration, i), deviation_);
        fingerprint_ = hash_of(fingerprint_, {reinterpret_cast<const std::byte*>(out), what_.bytes()});
      } else {
        wrong += count_wrong(static_cast<const std::byte*>(pieces_[i].out), number_of(iteration, i));
      }
    }
    return wrong;
  }

  const Deviation& deviation() const { return deviation_; }
  /// Hash of the bits of all results so far, in 32 bits, which a double can hold.
  double fingerprint() const { return static_cast<std::uint32_t>(fingerprint_ ^ fingerprint_ >> 32); }

 private:
  bool rounds() const { return what_.wire != Wire::native; }

  // The iteration number for the pattern, different for each tensor.
  std::uint64_t number_of(std::uint64_t iteration, std::size_t piece) const {
    return iteration * pieces_.size() + piece;
  }

  std::uint64_t count_wrong(const std::byte* out, std::uint64_t number) {
    const std::uint64_t count = what_.count;
    const auto mine = static_cast<std::uint64_t>(rank_) * count;
    const std::size_t part = count * size_of(what_.dtype);
    const schedule::CollectiveTraits& traits = schedule::traits_of(what_.kind);
    // A contribution with a part for each rank: this rank gets its own.
    const std::uint64_t first = traits.input == schedule::Parts::per_rank ? mine : 0;
    if (traits.reduces)
      return pattern_.count_wrong_reduced(out, count, number, first, traits.prefix ? rank_ + 1 : 0);
    if (traits.output != schedule::Parts::per_rank) {
      const int source = traits.has_root() ? 0 : rank_ ^ 1;
      return pattern_.count_wrong(out, count, source, number, first);
    }
    std::uint64_t wrong = 0;
    for (int source = 0; source < what_.ranks; ++source)
      wrong +=
          pattern_.count_wrong(out + static_cast<std::size_t>(source) * part, count, source, number, first);
    return wrong;
  }

  Case what_;
  int rank_;
  Pattern pattern_;
  Noise noise_;
  Deviation deviation_;
  std::uint64_t fingerprint_ = 0;
  std::vector<Piece> pieces_;
};

// Processor time of the thread or of all threads of this process, in user and kernel mode.
double processor_us(clockid_t clock) {
  timespec used{};
  ::clock_gettime(clock, &used);
  return static_cast<double>(used.tv_sec) * 1e6 + static_cast<double>(used.tv_nsec) / 1e3;
}

// Keeps a core busy, as a model would. A rank that loses its core takes longer.
void compute(double ms) {
  if (ms <= 0) return;
  const double end = processor_us(CLOCK_THREAD_CPUTIME_ID) + ms * 1e3;
  while (processor_us(CLOCK_THREAD_CPUTIME_ID) < end) {
  }
}

int iterations_for(const Policy& policy, double microseconds) {  // of an iteration
  if (policy.iterations > 0) return policy.iterations;
  const double wanted = std::ceil(policy.min_seconds * 1e6 / std::max(microseconds, 0.1));
  return std::max(policy.min_iterations, static_cast<int>(std::min<double>(wanted, policy.max_iterations)));
}

}  // namespace

Sample measure(Contestant& contestant, const Case& what, const std::string& algorithm, const Policy& policy,
               std::uint64_t& iteration) {
  Data data(contestant, what);
  contestant.prepare(what, algorithm, data.pieces());
  const auto tensors = static_cast<std::size_t>(what.tensors);
  // send_recv times a round trip, which is two messages.
  const double calls = (what.kind == Kind::send_recv ? 2 : 1) * what.steps;
  std::uint64_t wrong = 0;
  double cpu_us = 0;
  const auto once = [&] {
    data.write(++iteration);
    contestant.after_writing();
    contestant.barrier();
    // A system call: it takes longer than a short call, so it stands outside of the timed step.
    const double used = processor_us(CLOCK_PROCESS_CPUTIME_ID);
    const auto begin = std::chrono::steady_clock::now();
    for (std::size_t first = 0; first < data.pieces().size(); first += tensors) {
      compute(what.compute_ms);
      contestant.call(first, first + tensors);
    }
    const auto end = std::chrono::steady_clock::now();
    cpu_us += processor_us(CLOCK_PROCESS_CPUTIME_ID) - used - what.compute_ms * 1e3 * what.steps;
    // Ranks may share a core, so no rank verifies before all ranks have stopped their clocks.
    contestant.barrier();
    if (contestant.computes() && !what.rewrites) {
      contestant.before_reading();
      wrong += data.count_wrong(iteration);
    }
    return std::chrono::duration<double, std::micro>(end - begin).count() / calls;
  };

  std::vector<double> warm;
  const int warmup = policy.iterations > 0 ? policy.warmup : std::max(policy.warmup, 1);
  for (int i = 0; i < warmup; ++i) warm.push_back(once());
  std::int64_t count = 0;
  if (contestant.rank() == 0) {
    count = iterations_for(policy, warm.empty() ? 0 : *std::min_element(warm.begin(), warm.end()) * calls);
  }
  contestant.share(&count, sizeof(count));

  cpu_us = 0;
  std::vector<double> mine;
  mine.reserve(static_cast<std::size_t>(count) + 8);
  for (std::int64_t i = 0; i < count; ++i) mine.push_back(once());
  // The verification results follow the times.
  const auto& [largest, squares, exact_squares, elements] = data.deviation();
  constexpr std::size_t kJudged = 7;
  for (const double judged :
       {static_cast<double>(wrong), data.fingerprint(), largest, squares, exact_squares, elements,
        cpu_us / static_cast<double>(std::max<std::int64_t>(count, 1)) / calls}) {
    mine.push_back(judged);
  }

  const std::size_t width = mine.size();
  std::vector<double> all(contestant.rank() == 0 ? width * static_cast<std::size_t>(contestant.size()) : 0);
  contestant.collect(mine.data(), width, all.data());
  Sample sample{algorithm, {}, 0, {}, 0};
  if (contestant.rank() != 0) return sample;
  const std::size_t times = width - kJudged;
  sample.times_us.assign(times, 0.0);
  for (std::size_t r = 0; r < static_cast<std::size_t>(contestant.size()); ++r) {
    for (std::size_t i = 0; i < times; ++i) {
      sample.times_us[i] = std::max(sample.times_us[i], all[r * width + i]);
    }
    const double* judged = &all[r * width + times];
    sample.wrong += static_cast<std::uint64_t>(judged[0]);
    if (what.wire != Wire::native && judged[1] != all[times + 1]) sample.wrong += what.count;  // other bits
    sample.deviation += {judged[2], judged[3], judged[4], judged[5]};
    sample.cpu_us += judged[6];
  }
  return sample;
}

}  // namespace kolo::bench
