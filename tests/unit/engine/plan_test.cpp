// Plans of every algorithm: a tiny interpreter runs the segments of all ranks in random valid orders on real
// memory, and segments that touch the same bytes must be ordered.
#include "engine/plan.hpp"
#include "schedule/lengths.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <numeric>
#include <random>
#include <tuple>

#include "algorithms/algorithm.hpp"
#include "support/variants.hpp"

namespace kolo {
namespace {

using Number = std::uint32_t;  // sums wrap around: exact in any order
using Counts = std::vector<std::uint64_t>;

Number value(int rank, std::uint64_t i) {
  return static_cast<Number>((static_cast<std::uint64_t>(rank) + 1) * 2654435761u + i * 40503u);
}

struct Rank {
  std::shared_ptr<const engine::Plan> plan;
  std::vector<Number> in, out, scratch;  // in place, everything is in the larger of `in` and `out`
  Number* memory[3] = {};
  std::vector<std::uint32_t> left;
  std::vector<bool> done;

  Number* at(schedule::BufferName buffer, std::uint64_t offset) {
    return memory[static_cast<int>(buffer)] + offset / 4;
  }
};

struct Case {
  algorithms::ConfiguredAlgorithm variant;
  int size;
  int root;
  std::uint64_t count;
  std::uint64_t segment_bytes;
  bool in_place;
};

std::uint64_t sum(const Counts& counts) {
  return std::accumulate(counts.begin(), counts.end(), std::uint64_t{0});
}

class Machine {
 public:
  explicit Machine(const Case& c) : case_(c), collective_(c.variant.algorithm->collective) {
    const auto ranks = static_cast<std::size_t>(c.size);
    parts_ = schedule::even_parts(c.count, ranks);
    for (int r = 0; r < c.size; ++r) ranks_.push_back(make(r));
  }

  std::vector<Rank>& ranks() { return ranks_; }

  /// Returns false on a deadlock: segments are left, but none can run.
  bool run(std::mt19937& random, bool eager) {
    for (Rank& rank : ranks_) {
      rank.left.clear();
      for (const engine::PlanStep& step : rank.plan->steps) rank.left.push_back(step.dependencies);
      rank.done.assign(rank.plan->steps.size(), false);
    }
    std::map<std::tuple<int, int, std::uint32_t>, std::vector<Number>> mail;
    while (true) {
      std::vector<std::pair<int, std::uint32_t>> ready;
      bool all_done = true;
      for (int r = 0; r < case_.size; ++r) {
        for (std::uint32_t i = 0; i < of(r).plan->steps.size(); ++i) {
          if (of(r).done[i]) continue;
          all_done = false;
          if (of(r).left[i] == 0) ready.emplace_back(r, i);
        }
      }
      if (all_done) return true;
      std::shuffle(ready.begin(), ready.end(), random);
      bool moved = false;
      for (const auto& [r, i] : ready) {
        const engine::PlanStep& step = of(r).plan->steps[i];
        const std::uint64_t n = step.bytes / 4;
        if (step.kind == schedule::StepKind::copy) {
          if (n > 0)
            std::memmove(of(r).at(step.dst_buffer, step.dst), of(r).at(step.a_buffer, step.a), step.bytes);
        } else if (step.kind == schedule::StepKind::reduce) {
          combine(r, step, of(r).at(step.b_buffer, step.b), n);
        } else if (step.kind == schedule::StepKind::send) {
          const Number* from = of(r).at(step.a_buffer, step.a);
          if (!eager && !receiver_ready(r, step)) continue;
          mail[{r, step.peer, step.message}].assign(from, from + n);
        } else {
          const auto message = mail.find({step.peer, r, step.message});
          if (message == mail.end()) continue;
          if (message->second.size() != n) return false;
          if (step.kind == schedule::StepKind::recv_reduce) {
            combine(r, step, message->second.data(), n);
          } else {
            std::copy(message->second.begin(), message->second.end(), of(r).at(step.dst_buffer, step.dst));
          }
          mail.erase(message);
        }
        finish(r, i);
        moved = true;
        break;
      }
      if (!moved) return false;
    }
  }

  /// Empty if every output is as the collective promises.
  std::string wrong() {
    for (int r = 0; r < case_.size; ++r) {
      Rank& rank = of(r);
      const std::uint64_t n = output_count(r);
      for (std::uint64_t i = 0; i < n; ++i) {
        if (rank.memory[1][i] != expected(r, i)) {
          return "rank " + std::to_string(r) + " element " + std::to_string(i) + " of " + std::to_string(n);
        }
      }
    }
    return {};
  }

 private:
  Rank& of(int r) { return ranks_[static_cast<std::size_t>(r)]; }
  std::uint64_t offset(int r) const { return sum(Counts(parts_.begin(), parts_.begin() + r)); }
  std::uint64_t part(int r) const { return parts_[static_cast<std::size_t>(r)]; }
  std::uint64_t block() const { return case_.count / static_cast<std::uint64_t>(case_.size); }  // all_to_all

  std::uint64_t input_count(int r) const {
    switch (collective_) {
      case schedule::Collective::all_gather:
      case schedule::Collective::gather:
        return part(r);
      case schedule::Collective::barrier:
        return 0;
      case schedule::Collective::scatter:
        return r == case_.root ? case_.count : 0;
      case schedule::Collective::all_to_all:
        return block() * static_cast<std::uint64_t>(case_.size);
      default:
        return case_.count;
    }
  }
  std::uint64_t output_count(int r) const {
    switch (collective_) {
      case schedule::Collective::reduce_scatter:
      case schedule::Collective::scatter:
        return part(r);
      case schedule::Collective::barrier:
        return 0;
      case schedule::Collective::reduce:
      case schedule::Collective::gather:
        return r == case_.root ? case_.count : 0;
      case schedule::Collective::all_to_all:
        return input_count(r);
      default:
        return case_.count;
    }
  }
  Number total(std::uint64_t i, int ranks) const {
    Number sum = 0;
    for (int r = 0; r < ranks; ++r) sum += value(r, i);
    return sum;
  }
  Number expected(int r, std::uint64_t i) const {
    int owner = 0;
    switch (collective_) {
      case schedule::Collective::reduce_scatter:
        return total(offset(r) + i, case_.size);
      case schedule::Collective::all_gather:
      case schedule::Collective::gather:
        while (offset(owner) + part(owner) <= i) ++owner;
        return value(owner, i - offset(owner));
      case schedule::Collective::broadcast:
        return value(case_.root, i);
      case schedule::Collective::scatter:
        return value(case_.root, offset(r) + i);
      case schedule::Collective::all_to_all:
        return value(static_cast<int>(i / block()), static_cast<std::uint64_t>(r) * block() + i % block());
      case schedule::Collective::scan:
        return total(i, r + 1);
      default:
        return total(i, case_.size);
    }
  }

  Rank make(int r) {
    Rank rank;
    const schedule::Schedule schedule =
        case_.variant.algorithm->generate({collective_, r, case_.size, case_.root, case_.variant.arguments});
    const bool rooted = schedule::has_root(collective_) && collective_ != schedule::Collective::broadcast;
    schedule::CallKey key{.dtype = DType::uint32,
                          .in_place = collective_ == schedule::Collective::broadcast ||
                                      (case_.in_place && (!rooted || r == case_.root)),
                          .count = case_.count,
                          .segment_bytes = case_.segment_bytes};
    static_assert(sizeof(Number) == 4);
    if (collective_ == schedule::Collective::all_to_all) {
      key.count = block() * static_cast<std::uint64_t>(case_.size);
    } else if (schedule::part_count(schedule) == parts_.size()) {
      key.parts = parts_;
    }
    rank.plan = engine::make_plan(schedule, key);
    // Exactly as long as promised, so the address sanitizer detects accesses beyond the end.
    rank.in.resize(input_count(r));
    rank.out.resize(output_count(r));
    rank.scratch.resize(rank.plan->scratch_bytes / sizeof(Number));
    rank.memory[0] = rank.in.data();
    rank.memory[1] = rank.out.data();
    rank.memory[2] = rank.scratch.data();
    if (key.in_place) {
      if (rank.in.size() >= rank.out.size()) {
        const bool inside = collective_ == schedule::Collective::reduce_scatter ||
                            collective_ == schedule::Collective::scatter;
        rank.memory[1] = rank.in.data() + (inside ? offset(r) : 0);
      } else {
        rank.memory[0] = rank.out.data() + offset(r);
      }
    }
    for (std::uint64_t i = 0; i < input_count(r); ++i) {
      if (collective_ != schedule::Collective::broadcast || r == case_.root) rank.memory[0][i] = value(r, i);
    }
    return rank;
  }

  bool receiver_ready(int r, const engine::PlanStep& send) {
    Rank& peer = of(send.peer);
    for (std::size_t i = 0; i < peer.plan->steps.size(); ++i) {
      const engine::PlanStep& step = peer.plan->steps[i];
      const bool receives =
          step.kind == schedule::StepKind::recv || step.kind == schedule::StepKind::recv_reduce;
      if (receives && step.peer == r && step.message == send.message) return peer.left[i] == 0;
    }
    return false;
  }
  void combine(int r, const engine::PlanStep& step, const Number* other, std::uint64_t n) {
    Number* to = of(r).at(step.dst_buffer, step.dst);
    const Number* own = of(r).at(step.a_buffer, step.a);
    for (std::uint64_t i = 0; i < n; ++i) to[i] = own[i] + other[i];
  }
  void finish(int r, std::uint32_t i) {
    Rank& rank = of(r);
    rank.done[i] = true;
    const engine::PlanStep& step = rank.plan->steps[i];
    for (std::uint32_t d = 0; d < step.dependent_count; ++d) {
      --rank.left[rank.plan->dependents[step.first_dependent + d]];
    }
  }

  Case case_;
  schedule::Collective collective_;
  Counts parts_;
  std::vector<Rank> ranks_;
};

/// Finds two unordered segments of one rank that touch the same bytes, if at least one of them writes.
std::string races(Rank& rank) {
  const auto& steps = rank.plan->steps;
  const std::size_t n = steps.size();
  std::vector<std::vector<bool>> before(n, std::vector<bool>(n));  // before[j][i]: i is ordered before j
  std::vector<std::uint32_t> left, ready;
  for (std::uint32_t i = 0; i < n; ++i) {
    left.push_back(steps[i].dependencies);
    if (left[i] == 0) ready.push_back(i);
  }
  for (std::size_t taken = 0; taken < ready.size(); ++taken) {
    const std::uint32_t i = ready[taken];
    for (std::uint32_t d = 0; d < steps[i].dependent_count; ++d) {
      const std::uint32_t j = rank.plan->dependents[steps[i].first_dependent + d];
      before[j][i] = true;
      for (std::size_t k = 0; k < n; ++k) {
        if (before[i][k]) before[j][k] = true;
      }
      if (--left[j] == 0) ready.push_back(j);
    }
  }
  if (ready.size() < n) return "segments wait for each other in a circle";
  struct Range {
    const Number* begin;
    const Number* end;
    bool writes;
  };
  const auto ranges = [&](const engine::PlanStep& step) {
    std::vector<Range> all;
    const auto add = [&](schedule::BufferName buffer, std::uint64_t offset, bool writes) {
      const Number* begin = rank.at(buffer, offset);
      if (step.bytes > 0) all.push_back({begin, begin + step.bytes / 4, writes});
    };
    if (step.kind == schedule::StepKind::copy && step.bytes > 0 &&
        rank.at(step.dst_buffer, step.dst) == rank.at(step.a_buffer, step.a))
      return all;  // the engine runs no steps
    if (step.kind != schedule::StepKind::send) add(step.dst_buffer, step.dst, true);
    if (step.kind != schedule::StepKind::recv) add(step.a_buffer, step.a, false);
    if (step.kind == schedule::StepKind::reduce) add(step.b_buffer, step.b, false);
    return all;
  };
  for (std::size_t j = 0; j < n; ++j) {
    for (std::size_t i = 0; i < j; ++i) {
      if (before[j][i] || before[i][j]) continue;
      for (const Range& one : ranges(steps[i])) {
        for (const Range& other : ranges(steps[j])) {
          if ((one.writes || other.writes) && one.begin < other.end && other.begin < one.end) {
            return "segments " + std::to_string(i) + " and " + std::to_string(j) + " race";
          }
        }
      }
    }
  }
  return {};
}

/// Both ends number their messages alike: each send matches one receive of its size.
std::string unmatched(std::vector<Rank>& ranks) {
  std::map<std::tuple<int, int, std::uint32_t>, std::uint64_t> sent;
  std::size_t received = 0;
  for (int r = 0; r < static_cast<int>(ranks.size()); ++r) {
    for (const engine::PlanStep& step : ranks[static_cast<std::size_t>(r)].plan->steps) {
      if (step.kind == schedule::StepKind::send &&
          !sent.insert({{r, step.peer, step.message}, step.bytes}).second)
        return "a number is given twice";
    }
  }
  for (int r = 0; r < static_cast<int>(ranks.size()); ++r) {
    for (const engine::PlanStep& step : ranks[static_cast<std::size_t>(r)].plan->steps) {
      if (step.kind != schedule::StepKind::recv && step.kind != schedule::StepKind::recv_reduce) continue;
      ++received;
      const auto found = sent.find({step.peer, r, step.message});
      if (found == sent.end() || found->second != step.bytes) return "a receive meets no send of its size";
    }
  }
  return received == sent.size() ? std::string() : "a send meets no receive";
}

#if defined(__SANITIZE_ADDRESS__)
constexpr int kSizes[] = {1, 3, 4};  // instrumented code takes many times as long
#else
constexpr int kSizes[] = {1, 2, 3, 4, 5, 8};
#endif

TEST(Plan, EveryAlgorithmIsRightInAnyOrderOfItsSegments) {
  std::mt19937 random(7);
  for (const algorithms::ConfiguredAlgorithm& variant : test::all_variants()) {
    const algorithms::Algorithm& algorithm = *variant.algorithm;
    for (const int size : kSizes) {
      for (const int root : {0, size - 1}) {
        if (root > 0 && !schedule::has_root(algorithm.collective)) continue;
        if (!algorithms::supports(algorithm, {algorithm.collective, 0, size, root, variant.arguments}).ok())
          continue;
        for (const auto& [total, segment] : std::vector<std::pair<std::uint64_t, std::uint64_t>>{
                 {0, 64}, {1, 64}, {7, 4}, {40, 12}, {101, 1}, {103, 30}, {96, 1 << 19}}) {
          const std::uint64_t over = algorithm.even_parts_only ? total % static_cast<std::uint64_t>(size) : 0;
          const std::uint64_t count = total - over;
          for (const bool in_place : {false, true}) {
            if (in_place &&
                (algorithm.out_of_place_only || algorithm.collective == schedule::Collective::barrier))
              continue;
            if (segment < 8 && size > 4) continue;
            const std::string name = std::string(schedule::name_of(algorithm.collective)) + " " +
                                     variant.name() + " size " + std::to_string(size) + " root " +
                                     std::to_string(root) + " count " + std::to_string(count) + " segment " +
                                     std::to_string(segment) + (in_place ? " in place" : "");
            for (const bool eager : {true, false}) {
              Machine machine({variant, size, root, count, segment, in_place});
              if (eager) {
                ASSERT_EQ(unmatched(machine.ranks()), "") << name;
                for (Rank& rank : machine.ranks()) ASSERT_EQ(races(rank), "") << name;
              }
              ASSERT_TRUE(machine.run(random, eager)) << name << ": stuck";
              ASSERT_EQ(machine.wrong(), "") << name;
            }
          }
        }
      }
    }
  }
}

TEST(Plan, NoSegmentIsLongerThanAsked) {
  const algorithms::Algorithm* ring = algorithms::find_algorithm(schedule::Collective::all_reduce, "ring");
  ASSERT_NE(ring, nullptr);
  const schedule::CallKey key{
      .dtype = DType::float64, .count = 1001, .segment_bytes = 100};  // 12 whole elements
  const auto plan = engine::make_plan(ring->generate({schedule::Collective::all_reduce, 1, 4, 0}), key);
  for (const engine::PlanStep& step : plan->steps) {
    EXPECT_LE(step.bytes, 96u);
    EXPECT_EQ(step.bytes % 8, 0u);
  }
}

TEST(Plan, OrderingsGrowWithTheDataAndNotWithItsSquare) {
  // Out of place it orders steps that touch different memory: all their segments, one by one.
  const algorithms::Algorithm* algorithm =
      algorithms::find_algorithm(schedule::Collective::broadcast, "scatter_all_gather");
  ASSERT_NE(algorithm, nullptr);
  const auto orderings = [&](int rank, std::uint64_t count) {
    const schedule::CallKey key{.count = count, .segment_bytes = 64};
    return engine::make_plan(algorithm->generate({schedule::Collective::broadcast, rank, 4, 0}), key)
        ->dependents.size();
  };
  std::size_t few = 0, many = 0;
  for (int rank = 0; rank < 4; ++rank) {
    few += orderings(rank, 4096);
    many += orderings(rank, 16'384);
  }
  EXPECT_GT(few, 0u);
  EXPECT_LE(many, 5 * few);
}

TEST(Plan, EvenPartsDifferByAtMostOneAndAddUp) {
  EXPECT_TRUE(schedule::even_parts(5, 0).empty());
  for (const std::uint64_t count : {0ull, 1ull, 7ull, 1000ull, 1ull << 59}) {
    for (const std::uint64_t parts : {1u, 2u, 3u, 7u, 64u}) {
      const auto result = schedule::even_parts(count, parts);
      ASSERT_EQ(result.size(), parts);
      EXPECT_EQ(sum(result), count);
      EXPECT_LE(result.front() - result.back(), 1u);
      EXPECT_TRUE(std::is_sorted(result.rbegin(), result.rend()));
    }
  }
}

TEST(Plan, EvenPartsOfBlocksHoldWholeOnesButForTheLast) {
  for (const std::uint64_t count : {0ull, 1ull, 255ull, 256ull, 257ull, 1000ull, 4096ull, 1ull << 59}) {
    for (const std::uint64_t parts : {1u, 2u, 3u, 7u, 64u}) {
      const auto result = schedule::even_parts(count, parts, 256);
      ASSERT_EQ(result.size(), parts);
      EXPECT_EQ(sum(result), count);
      EXPECT_LE(result.front(), result.back() + 511);
      std::uint64_t before = 0;
      for (const std::uint64_t part : result) {
        EXPECT_TRUE(part == 0 || before % 256 == 0) << count << " in " << parts;
        before += part;
      }
    }
  }
}

TEST(Plan, CutsMessagesAtBlocksOfTheWireFormatAndCountsItsBytes) {
  for (const char* name :
       {"ring", "circulant", "halving_doubling"}) {  // circulant sends ranges that wrap around
    const algorithms::Algorithm* algorithm =
        algorithms::find_algorithm(schedule::Collective::all_reduce, name);
    const schedule::CallKey key{
        .wire = Wire::int8, .count = 12'345, .segment_bytes = 3000};  // two whole blocks
    for (int rank = 0; rank < 5; ++rank) {
      const auto plan =
          engine::make_plan(algorithm->generate({schedule::Collective::all_reduce, rank, 5, 0}), key);
      std::uint64_t longest = 0;
      for (const engine::PlanStep& step : plan->steps) {
        EXPECT_LE(step.bytes, 2048u);
        const std::uint64_t blocks = (step.bytes + 1023) / 1024;
        EXPECT_EQ(step.wire_bytes, blocks * 4 + step.bytes / 4);
        if (step.peer >= 0) longest = std::max(longest, step.wire_bytes);
      }
      EXPECT_EQ(plan->longest_message, longest);
    }
  }
}

}  // namespace
}  // namespace kolo
