#include "unit/algorithms/interpreter.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <tuple>

namespace kolo {
namespace {

/// An element is the list of (rank, index in the whole data) that were concatenated to it. This reduction
/// keeps all operands and their order. "/" marks the division of an average.
using Element = std::string;
using Elements = std::vector<Element>;
const Element kUnwritten = "?";

Element contribution(int rank, std::uint64_t index) {
  return "<" + std::to_string(rank) + ":" + std::to_string(index) + ">";
}

std::vector<std::string> tokens(const Element& element) {
  std::vector<std::string> result;
  for (const char c : element) {
    if (c == '<' || c == '/' || result.empty()) result.emplace_back();
    result.back() += c;
  }
  return result;
}

class Machine {
 public:
  Machine(const schedule::Schedule& schedule, std::span<const std::uint64_t> counts, bool in_place) {
    const auto rank = static_cast<std::size_t>(schedule.rank);
    std::vector<std::uint64_t> all(counts.begin(), counts.end());
    in_counts_ = all;
    out_counts_ = all;
    std::uint64_t before_own = 0;
    switch (schedule.collective) {
      case schedule::Collective::reduce_scatter:
      case schedule::Collective::scatter:
        before_own = std::accumulate(counts.begin(), counts.begin() + schedule.rank, std::uint64_t{0});
        out_counts_ = {counts[rank]};
        if (in_place) out_base_ = before_own;
        break;
      case schedule::Collective::all_gather:
      case schedule::Collective::gather:
        before_own = std::accumulate(counts.begin(), counts.begin() + schedule.rank, std::uint64_t{0});
        in_counts_ = {counts[rank]};
        if (in_place) in_base_ = before_own;
        own_ = before_own;
        break;
      case schedule::Collective::all_to_all:
        out_counts_.assign(counts.size(), counts[rank]);
        break;
      default:
        break;
    }
    const bool root = schedule.rank == schedule.root;
    const schedule::Collective c = schedule.collective;
    has_input_ = root || (c != schedule::Collective::broadcast && c != schedule::Collective::scatter);
    has_output_ = root || (c != schedule::Collective::reduce && c != schedule::Collective::gather);
    if (!has_input_ || !has_output_) in_base_ = out_base_ = 0;
    const std::uint64_t in = std::accumulate(in_counts_.begin(), in_counts_.end(), std::uint64_t{0});
    const std::uint64_t out = std::accumulate(out_counts_.begin(), out_counts_.end(), std::uint64_t{0});
    for (const auto& list : {in_counts_, out_counts_}) {
      for (const std::uint64_t count : list) slot_ = std::max(slot_, count);
    }
    in_place_ = in_place && has_input_ && has_output_;
    input_.assign(in_place_ ? std::max(in, out) : in, kUnwritten);
    if (!in_place_) output_.assign(out, kUnwritten);
    std::uint32_t laid_out = 0;
    for (const schedule::ChunkRange& run : schedule.scratch_like) laid_out += run.count;
    for (std::uint32_t slot = laid_out; slot < schedule.scratch_chunks; ++slot) {
      slots_.push_back(slots_.back() + slot_);
    }
    for (const schedule::ChunkRange& run : schedule.scratch_like) {
      const auto& like = run.buffer == schedule::BufferName::input ? in_counts_ : out_counts_;
      for (std::uint32_t i = 0; i < run.count; ++i) {
        slots_.push_back(slots_.back() + like[(run.begin + i) % like.size()]);
      }
    }
    scratch_.assign(slots_.back(), kUnwritten);
    if (!has_input_) return;
    for (std::uint64_t i = 0; i < in; ++i) input_[in_base_ + i] = contribution(schedule.rank, own_ + i);
  }

  Elements load(const schedule::ChunkRange& range) {
    if (range.count == 0) return {};
    const auto [memory, begin, length] = place(range);
    return {memory->begin() + static_cast<std::ptrdiff_t>(begin),
            memory->begin() + static_cast<std::ptrdiff_t>(begin + length)};
  }

  bool store(const schedule::ChunkRange& range, const Elements& elements) {
    if (range.count == 0) return elements.empty();
    const auto [memory, begin, length] = place(range);
    if (elements.size() != length) return false;
    std::copy(elements.begin(), elements.end(), memory->begin() + static_cast<std::ptrdiff_t>(begin));
    return true;
  }

  bool has_output() const { return has_output_; }
  std::uint64_t output_chunks() const { return out_counts_.size(); }

 private:
  std::tuple<Elements*, std::uint64_t, std::uint64_t> place(const schedule::ChunkRange& range) {
    const bool is_scratch = range.buffer == schedule::BufferName::scratch;
    const schedule::BufferName measure = is_scratch ? range.like_buffer : range.buffer;
    const std::uint32_t first = is_scratch ? range.like_begin : range.begin;
    const auto& counts = measure == schedule::BufferName::input ? in_counts_ : out_counts_;
    std::uint64_t length = 0;
    for (std::uint32_t i = 0; i < range.count; ++i) length += counts[(first + i) % counts.size()];
    if (is_scratch) return {&scratch_, slots_[range.begin], length};
    const std::uint64_t before = std::accumulate(counts.begin(), counts.begin() + first, std::uint64_t{0});
    if (range.buffer == schedule::BufferName::input) return {&input_, in_base_ + before, length};
    return {in_place_ ? &input_ : &output_, (in_place_ ? out_base_ : 0) + before, length};
  }

  std::vector<std::uint64_t> in_counts_;
  std::vector<std::uint64_t> out_counts_;
  std::uint64_t in_base_ = 0;
  std::uint64_t out_base_ = 0;
  std::uint64_t own_ = 0;  // index of the rank's own part in the whole data
  std::uint64_t slot_ = 0;
  std::vector<std::uint64_t> slots_{0};  // where each slot begins, then the end
  bool has_input_ = true;
  bool has_output_ = true;
  bool in_place_ = false;
  Elements input_;  // in place: both
  Elements output_;
  Elements scratch_;
};

class Cluster {
 public:
  Cluster(std::span<const schedule::Schedule> schedules, std::span<const std::uint64_t> counts,
          const Trial& trial)
      : schedules_(schedules), counts_(counts), trial_(trial) {
    for (const schedule::Schedule& schedule : schedules) {
      machines_.emplace_back(schedule, counts, trial.in_place);
      done_.emplace_back(schedule.steps.size(), false);
      std::map<int, int> sent;
      std::map<int, int> received;
      auto& numbers = numbers_.emplace_back();
      for (const schedule::Step& step : schedule.steps) {
        if (step.kind == schedule::StepKind::send) {
          numbers.push_back(sent[step.peer]++);
        } else {
          numbers.push_back(step.kind == schedule::StepKind::recv ||
                                    step.kind == schedule::StepKind::recv_reduce
                                ? received[step.peer]++
                                : 0);
        }
      }
    }
  }

  std::string run(std::mt19937& random) {
    std::size_t left = 0;
    for (const auto& done : done_) left += done.size();
    while (left > 0) {
      std::vector<std::pair<std::size_t, std::size_t>> ready;
      for (std::size_t r = 0; r < schedules_.size(); ++r) {
        for (std::size_t s = 0; s < schedules_[r].steps.size(); ++s) {
          if (is_ready(r, s)) ready.emplace_back(r, s);
        }
      }
      if (ready.empty()) return "deadlock";
      const auto [r, s] = ready[random() % ready.size()];
      if (!execute(r, s)) return "a message of the wrong length";
      left = 0;
      for (const auto& done : done_) {
        left += static_cast<std::size_t>(std::count(done.begin(), done.end(), false));
      }
    }
    return verdict();
  }

 private:
  using Key = std::tuple<std::size_t, std::size_t, int>;  // from, to, number

  static bool receives(const schedule::Step& step) {
    return step.kind == schedule::StepKind::recv || step.kind == schedule::StepKind::recv_reduce;
  }
  bool waits_over(std::size_t r, std::size_t s) const {
    const schedule::Schedule& schedule = schedules_[r];
    for (const std::uint32_t d : schedule.dependencies_of(schedule.steps[s])) {
      if (!done_[r][d]) return false;
    }
    return !done_[r][s];
  }
  std::optional<std::size_t> sender_of(std::size_t r, std::size_t s) const {
    const auto from = static_cast<std::size_t>(schedules_[r].steps[s].peer);
    for (std::size_t i = 0; i < schedules_[from].steps.size(); ++i) {
      const schedule::Step& step = schedules_[from].steps[i];
      if (step.kind == schedule::StepKind::send && step.peer == static_cast<int>(r) &&
          numbers_[from][i] == numbers_[r][s]) {
        return i;
      }
    }
    return std::nullopt;
  }

  bool is_ready(std::size_t r, std::size_t s) const {
    const schedule::Step& step = schedules_[r].steps[s];
    if (!waits_over(r, s)) return false;
    if (step.kind == schedule::StepKind::send) return trial_.eager;
    if (!receives(step)) return true;
    const auto from = static_cast<std::size_t>(step.peer);
    if (trial_.eager) return flying_.contains({from, r, numbers_[r][s]});
    const auto sender = sender_of(r, s);
    return sender && waits_over(from, *sender);
  }

  bool execute(std::size_t r, std::size_t s) {
    const schedule::Step& step = schedules_[r].steps[s];
    Machine& machine = machines_[r];
    done_[r][s] = true;
    if (step.kind == schedule::StepKind::send) {
      flying_[{r, static_cast<std::size_t>(step.peer), numbers_[r][s]}] = machine.load(step.a);
      return true;
    }
    if (step.kind == schedule::StepKind::copy) return machine.store(step.dst, machine.load(step.a));
    if (step.kind == schedule::StepKind::reduce) {
      return machine.store(step.dst, combine(machine.load(step.a), machine.load(step.b), step.completes));
    }
    const auto from = static_cast<std::size_t>(step.peer);
    if (!trial_.eager) execute(from, *sender_of(r, s));
    Elements incoming = std::move(flying_[{from, r, numbers_[r][s]}]);
    if (step.kind == schedule::StepKind::recv) return machine.store(step.dst, incoming);
    const Elements own = machine.load(step.a);
    if (own.size() != incoming.size()) return false;
    return machine.store(step.dst, step.incoming_first ? combine(incoming, own, step.completes)
                                                       : combine(own, incoming, step.completes));
  }

  static Elements combine(const Elements& left, const Elements& right, bool completes) {
    Elements result;
    for (std::size_t i = 0; i < std::min(left.size(), right.size()); ++i) {
      result.push_back(left[i] + right[i] + (completes ? "/" : ""));
    }
    return result;
  }

  /// The whole data's index of element 0 of a part.
  std::uint64_t index_of(std::size_t part) const {
    return std::accumulate(counts_.begin(), counts_.begin() + static_cast<std::ptrdiff_t>(part),
                           std::uint64_t{0});
  }

  std::string verdict() {
    const int size = static_cast<int>(schedules_.size());
    for (std::size_t r = 0; r < schedules_.size(); ++r) {
      const schedule::Schedule& schedule = schedules_[r];
      if (schedule.collective == schedule::Collective::barrier || !machines_[r].has_output()) continue;
      for (std::uint32_t c = 0; c < machines_[r].output_chunks(); ++c) {
        std::size_t part = c;
        int source = schedule.root;
        if (schedule.collective == schedule::Collective::reduce_scatter ||
            schedule.collective == schedule::Collective::scatter ||
            schedule.collective == schedule::Collective::all_to_all) {
          part = r;
        }
        if (schedule.collective == schedule::Collective::all_gather ||
            schedule.collective == schedule::Collective::gather ||
            schedule.collective == schedule::Collective::all_to_all) {
          source = static_cast<int>(c);
        }
        std::uint64_t index = index_of(part);
        for (const Element& element : machines_[r].load({schedule::BufferName::output, c, 1})) {
          std::vector<std::string> expected;
          if (schedule::is_reducing(schedule.collective)) {
            const bool is_scan = schedule.collective == schedule::Collective::scan;
            const int ranks = is_scan ? static_cast<int>(r) + 1 : size;
            for (int rank = 0; rank < ranks; ++rank) expected.push_back(contribution(rank, index));
            if (size > 1 && ranks == size) expected.push_back("/");
          } else {
            expected.push_back(contribution(source, index));
          }
          std::vector<std::string> found = tokens(element);
          if (!trial_.rank_ordered) {
            // "/" must stay last: no operand may be added after the division of an average.
            std::sort(expected.begin(), expected.end() - (expected.back() == "/" ? 1 : 0));
            std::sort(found.begin(), found.end() - (found.back() == "/" ? 1 : 0));
          }
          if (found != expected) {
            return "rank " + std::to_string(r) + " output " + std::to_string(c) + " holds " + element;
          }
          ++index;
        }
      }
    }
    return {};
  }

  std::span<const schedule::Schedule> schedules_;
  std::span<const std::uint64_t> counts_;
  Trial trial_;
  std::vector<Machine> machines_;
  std::vector<std::vector<bool>> done_;
  std::vector<std::vector<int>> numbers_;  // of each step's message, between its two ranks
  std::map<Key, Elements> flying_;
};

}  // namespace

std::string run_randomly(std::span<const schedule::Schedule> schedules,
                         std::span<const std::uint64_t> part_counts, const Trial& trial,
                         std::mt19937& random) {
  return Cluster(schedules, part_counts, trial).run(random);
}

}  // namespace kolo
