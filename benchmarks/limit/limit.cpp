#include "limit.hpp"

#include <sched.h>
#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

#include <algorithm>

namespace limit {
namespace {

// A cache line, in one register or several.
using Line [[gnu::vector_size(64), gnu::aligned(4), gnu::may_alias]] = float;
constexpr std::size_t kLine = sizeof(Line) / sizeof(float);

// kRanks: number of sources and of targets as a constant for the compiler; 0: not constant.
template <std::size_t kRanks>
[[gnu::always_inline]] inline void sum_lines(std::span<const float* const> sources,
                                             std::span<float* const> targets, std::size_t begin,
                                             std::size_t end) {
  const std::size_t from = kRanks > 0 ? kRanks : sources.size(), to = kRanks > 0 ? kRanks : targets.size();
  const float* const* in = sources.data();
  float* const* out = targets.data();
  std::size_t i = begin;
  for (; i + kLine <= end; i += kLine) {
    Line line = *reinterpret_cast<const Line*>(in[0] + i);
    for (std::size_t r = 1; r < from; ++r) line += *reinterpret_cast<const Line*>(in[r] + i);
    for (std::size_t r = 0; r < to; ++r) *reinterpret_cast<Line*>(out[r] + i) = line;
  }
  for (; i < end; ++i) {
    float value = in[0][i];
    for (std::size_t r = 1; r < from; ++r) value += in[r][i];
    for (std::size_t r = 0; r < to; ++r) out[r][i] = value;
  }
}

[[gnu::always_inline]] inline void sum_for_any(std::span<const float* const> sources,
                                               std::span<float* const> targets, std::size_t begin,
                                               std::size_t end) {
  const std::size_t ranks = sources.size() == targets.size() ? sources.size() : 0;
  if (ranks == 1) return sum_lines<1>(sources, targets, begin, end);
  if (ranks == 2) return sum_lines<2>(sources, targets, begin, end);
  if (ranks == 4) return sum_lines<4>(sources, targets, begin, end);
  if (ranks == 8) return sum_lines<8>(sources, targets, begin, end);
  sum_lines<0>(sources, targets, begin, end);
}

// Yields the core while waiting: at once if ranks share cores, else after many polls, because the awaited
// rank may have lost its core.
class Patience {
 public:
  explicit Patience(bool yields) : polls_(yields ? 0 : 10000) {}
  void lose_some() {
    if (polls_ == 0) {
      ::sched_yield();
    } else {
      --polls_;
    }
  }

 private:
  int polls_;
};

// sum_for_any() for other instruction sets.
#if defined(__x86_64__)
[[gnu::target("avx512f")]] void sum_avx512(std::span<const float* const> sources,
                                           std::span<float* const> targets, std::size_t begin,
                                           std::size_t end) {
  sum_for_any(sources, targets, begin, end);
}
[[gnu::target("avx2")]] void sum_avx2(std::span<const float* const> sources, std::span<float* const> targets,
                                      std::size_t begin, std::size_t end) {
  sum_for_any(sources, targets, begin, end);
}
#endif

}  // namespace

void Barrier::wait() {
  flags_[static_cast<std::size_t>(rank_)].arrivals.store(++arrivals_, std::memory_order_release);
  Patience patience(yields_);
  for (const Flag& flag : flags_) {
    while (flag.arrivals.load(std::memory_order_acquire) < arrivals_) patience.lose_some();
  }
}

void Exchange::all_reduce(const float* in, float* out, std::size_t count) {
  const std::size_t lines = (count + Message::kValues - 1) / Message::kValues;
  Message* const first = messages_.data() + ++calls_ % 2 * messages_.size() / 2;
  Message* const mine = first + static_cast<std::size_t>(rank_) * kLines;
  const auto values_in = [&](std::size_t line) {
    return std::min(Message::kValues, count - line * Message::kValues);
  };
  for (std::size_t l = 0; l < lines; ++l) {
    std::copy_n(in + l * Message::kValues, values_in(l), mine[l].values);
    mine[l].number.store(calls_, std::memory_order_release);
  }
  Patience patience(yields_);
  for (std::size_t l = 0; l < lines; ++l) {
    float total[Message::kValues] = {};
    for (int r = 0; r < ranks_; ++r) {
      const Message& message = first[static_cast<std::size_t>(r) * kLines + l];
      while (message.number.load(std::memory_order_acquire) != calls_) patience.lose_some();
      for (std::size_t i = 0; i < Message::kValues; ++i) total[i] += message.values[i];
    }
    std::copy_n(total, values_in(l), out + l * Message::kValues);
  }
}

void sum(std::span<const float* const> sources, std::span<float* const> targets, std::size_t begin,
         std::size_t end) {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f")) return sum_avx512(sources, targets, begin, end);
  if (__builtin_cpu_supports("avx2")) return sum_avx2(sources, targets, begin, end);
#endif
  sum_for_any(sources, targets, begin, end);
}

void stream(const float* source, std::span<float* const> targets, std::size_t begin, std::size_t end) {
#if defined(__x86_64__)
  using Quad [[gnu::vector_size(16), gnu::aligned(4), gnu::may_alias]] = float;
  constexpr std::size_t kQuad = sizeof(Quad) / sizeof(float);
  for (float* const target : targets) {
    const std::size_t off = reinterpret_cast<std::uintptr_t>(target + begin) / sizeof(float) % kQuad;
    std::size_t i = std::min(end, begin + (kQuad - off) % kQuad);
    std::copy(source + begin, source + i, target + begin);
    for (; i + kQuad <= end; i += kQuad) {
      _mm_stream_ps(target + i, *reinterpret_cast<const Quad*>(source + i));
    }
    std::copy(source + i, source + end, target + i);
  }
  _mm_sfence();
#else
  sum({&source, 1}, targets, begin, end);
#endif
}

}  // namespace limit
