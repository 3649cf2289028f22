#include "schedule/symbolic_run.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "schedule/contributions.hpp"
#include "schedule/lengths.hpp"
#include "schedule/refusal.hpp"
#include "schedule/symbolic_memory.hpp"

namespace kolo::schedule {
namespace {

using Pieces = std::vector<Piece>;

/// One rank, with its cells laid out one after the other.
struct Rank {
  Rank(const Schedule& schedule, ChunkLengths chunk_lengths, Sharing sharing)
      : lengths(std::move(chunk_lengths)), map(schedule, sharing), offsets(map.cells(), 0) {
    std::vector<std::uint64_t> cell_lengths(map.cells(), 0);
    for (const BufferName buffer : {BufferName::input, BufferName::output}) {
      for (std::uint32_t c = 0; c < chunk_count(schedule, buffer); ++c) {
        const ChunkRange chunk{buffer, c, 1};
        cell_lengths[map.first_cell(chunk)] = lengths.of(chunk);
      }
    }
    const std::vector<std::uint64_t> slots = lengths.slots(schedule);
    std::copy(slots.begin(), slots.end(), cell_lengths.end() - static_cast<std::ptrdiff_t>(slots.size()));
    for (std::size_t c = 1; c < offsets.size(); ++c) offsets[c] = offsets[c - 1] + cell_lengths[c - 1];
  }

  std::uint64_t offset_of(const ChunkRange& range) const { return offsets[map.first_cell(range)]; }

  ChunkLengths lengths;
  MemoryMap map;
  std::vector<std::uint64_t> offsets;
  SymbolicMemory memory;
};

class Run {
  friend class kolo::schedule::SymbolicRun;

 public:
  Run(std::span<const Schedule> schedules, std::span<const std::uint64_t> part_counts, Sharing sharing,
      bool rank_ordered)
      : schedules_(schedules),
        sharing_(sharing),
        contributions_(static_cast<int>(schedules.size()), rank_ordered),
        origins_(1, 0) {
    for (const std::uint64_t count : part_counts) origins_.push_back(origins_.back() + count);
    ranks_.reserve(schedules.size());
    for (const Schedule& schedule : schedules) {
      Rank& rank = ranks_.emplace_back(schedule, chunk_lengths(schedule, part_counts), sharing);
      const ChunkRange all{BufferName::input, 0, chunk_count(schedule, BufferName::input)};
      if (all.count == 0) continue;
      const Piece piece{rank.lengths.of(all), origins_[first_input_part(schedule)],
                        Contributions::only(schedule.rank)};
      rank.memory.write(rank.offset_of(all), {&piece, 1});
    }
  }

  Status execute(const MessageGraph::Event& event) {
    const Step& step = step_of(event.step);
    Pieces moved;
    if (Status status = read(event.step, step.a, moved); !status.ok()) return status;
    if (event.is_message) return receive(event.receiver, event.step, std::move(moved));
    if (step.kind == StepKind::reduce) {
      Pieces right;
      if (Status status = read(event.step, step.b, right); !status.ok()) return status;
      if (Status status = combine(event.step, moved, right, moved); !status.ok()) return status;
    }
    write(event.step, std::move(moved));
    return {};
  }

  Status check_outputs() {
    for (const Schedule& schedule : schedules_) {
      // A receive gets what its peer has sent: there is nothing to compare the data with.
      if (schedule.collective == Collective::send_recv) continue;
      for (std::uint32_t c = 0; c < chunk_count(schedule, BufferName::output); ++c) {
        if (Status status = check_output(schedule, c); !status.ok()) return status;
      }
    }
    return {};
  }

 private:
  const Step& step_of(const StepRef& ref) const { return schedules_[ref.rank].steps[ref.step]; }
  Status fault(const StepRef& ref, const std::string& why) const {
    return refuse(schedules_[ref.rank], ref.step, why + suffix_of(sharing_));
  }

  /// The first part of the whole data that is in the input; and the part that an output chunk holds.
  static std::uint32_t first_input_part(const Schedule& schedule) {
    return traits_of(schedule.collective).input_within_output() ? static_cast<std::uint32_t>(schedule.rank)
                                                                : 0;
  }
  static std::uint32_t output_part(const Schedule& schedule, std::uint32_t chunk) {
    const CollectiveTraits& traits = traits_of(schedule.collective);
    return traits.input == Parts::per_rank ? static_cast<std::uint32_t>(schedule.rank) : chunk;
  }

  Status read(const StepRef& at, const ChunkRange& range, Pieces& out) const {
    if (range.count == 0) return {};
    const Rank& rank = ranks_[at.rank];
    if (rank.memory.read(rank.offset_of(range), rank.lengths.of(range), out)) return {};
    return fault(at, "it reads memory that nothing has written");
  }

  void write(const StepRef& at, Pieces pieces) {
    const ChunkRange& range = step_of(at).dst;
    if (range.count == 0) return;
    for (Piece& piece : pieces) piece.writer = at.step;
    Rank& rank = ranks_[at.rank];
    rank.memory.write(rank.offset_of(range), pieces);
  }

  Status receive(const StepRef& at, const StepRef& sender, Pieces incoming) {
    const Step& step = step_of(at);
    const std::uint64_t sent = ranks_[sender.rank].lengths.of(step_of(sender).a);
    const std::uint64_t expected = ranks_[at.rank].lengths.of(step.dst);
    if (sent != expected) {
      return fault(at, fmt::format("it expects {} elements, but step {} of rank {} sends {}", expected,
                                   sender.step, sender.rank, sent));
    }
    if (step.kind == StepKind::recv_reduce) {
      Pieces own;
      if (Status status = read(at, step.a, own); !status.ok()) return status;
      Status status =
          step.incoming_first ? combine(at, incoming, own, incoming) : combine(at, own, incoming, incoming);
      if (!status.ok()) return status;
    }
    write(at, std::move(incoming));
    return {};
  }

  /// `out` may be one of the operands. Both have the same length.
  Status combine(const StepRef& at, const Pieces& left, const Pieces& right, Pieces& out) {
    Pieces result;
    std::uint64_t left_done = 0;
    std::uint64_t right_done = 0;
    for (std::size_t l = 0, r = 0; l < left.size() && r < right.size();) {
      const std::uint64_t length = std::min(left[l].length - left_done, right[r].length - right_done);
      const std::uint64_t origin = left[l].origin + left_done;
      if (origin != right[r].origin + right_done) {
        return fault(at, "it combines elements that do not belong together: " + place(origin) + " with " +
                             place(right[r].origin + right_done));
      }
      const Result<Contributions::Set> who = contributions_.combine(left[l].who, right[r].who);
      if (!who.ok()) return fault(at, who.status().message() + " at " + place(origin));
      if (Status status = check_completes(at, who.value()); !status.ok()) return status;
      result.push_back({length, origin, who.value()});
      left_done += length;
      right_done += length;
      if (left_done == left[l].length) ++l, left_done = 0;
      if (right_done == right[r].length) ++r, right_done = 0;
    }
    out = std::move(result);
    return {};
  }

  Status check_completes(const StepRef& at, Contributions::Set who) const {
    const bool complete = contributions_.complete(who);
    if (complete == step_of(at).completes) return {};
    if (complete) return fault(at, "its result holds every contribution, but `completes` is not set");
    return fault(at, "`completes` is set, but its result lacks the contribution of " +
                         contributions_.first_missing(who));
  }

  Status check_output(const Schedule& schedule, std::uint32_t chunk) const {
    const Rank& rank = ranks_[static_cast<std::size_t>(schedule.rank)];
    const ChunkRange range{BufferName::output, chunk, 1};
    const auto name = [&] { return fmt::format("output[{}]", chunk); };
    Pieces pieces;
    if (!rank.memory.read(rank.offset_of(range), rank.lengths.of(range), pieces)) {
      return refuse(schedule, name() + " is not written by any step" + suffix_of(sharing_));
    }
    std::uint64_t origin = origins_[output_part(schedule, chunk)];
    for (const Piece& piece : pieces) {
      std::string why;
      if (piece.origin != origin) {
        why = fmt::format("{} ends with {} instead of {}", name(), place(piece.origin), place(origin));
      } else if (traits_of(schedule.collective).prefix) {
        std::vector<int> expected(static_cast<std::size_t>(schedule.rank) + 1);
        std::iota(expected.begin(), expected.end(), 0);
        if (contributions_.ranks(piece.who) != expected) {
          why = fmt::format("{} ends with the sum of {} instead of ranks 0 to {}", name(),
                            contributions_.describe(piece.who), schedule.rank);
        }
      } else if (is_reducing(schedule.collective)) {
        if (!contributions_.complete(piece.who)) {
          why = name() + " ends without the contribution of " + contributions_.first_missing(piece.who);
        }
      } else {
        const int owner =
            traits_of(schedule.collective).input_at_root ? schedule.root : static_cast<int>(chunk);
        if (!contributions_.equal(piece.who, Contributions::only(owner))) {
          why = fmt::format("{} ends with the data of {} instead of rank {}", name(),
                            contributions_.describe(piece.who), owner);
        }
      }
      if (!why.empty()) {
        why += suffix_of(sharing_);
        return piece.writer == Piece::kNoStep ? refuse(schedule, why) : refuse(schedule, piece.writer, why);
      }
      origin += piece.length;
    }
    return {};
  }

  /// "part 2, element 5".
  std::string place(std::uint64_t origin) const {
    const auto after = std::upper_bound(origins_.begin(), origins_.end(), origin);
    const auto part = static_cast<std::uint64_t>(after - origins_.begin() - 1);
    return fmt::format("part {}, element {}", part, origin - origins_[part]);
  }

  std::span<const Schedule> schedules_;
  Sharing sharing_;
  Contributions contributions_;
  std::vector<std::uint64_t> origins_;  // of each part, in the whole data; at the end the length of the data
  std::vector<Rank> ranks_;
};

void add(Known& to, const Known& from) {
  for (std::size_t i = 0; i < from.size(); ++i) {
    if (from[i]) to[i] = true;
  }
}

}  // namespace

struct SymbolicRun::State {
  Run run;
};

SymbolicRun::SymbolicRun(std::span<const Schedule> schedules, std::span<const std::uint64_t> part_counts,
                         Sharing sharing, bool rank_ordered)
    : state_(new State{Run(schedules, part_counts, sharing, rank_ordered)}) {}
SymbolicRun::~SymbolicRun() = default;

Status SymbolicRun::execute(const MessageGraph::Event& event) {
  return state_->run.execute(event);
}
Status SymbolicRun::check_output(const Schedule& schedule, std::uint32_t chunk) const {
  return state_->run.check_output(schedule, chunk);
}
std::uint32_t SymbolicRun::part_of(const Schedule& schedule, std::uint32_t chunk) {
  return Run::output_part(schedule, chunk);
}
Status SymbolicRun::read(const StepRef& at, const ChunkRange& range, std::vector<Piece>& out) const {
  return state_->run.read(at, range, out);
}
const SymbolicMemory& SymbolicRun::memory(std::size_t rank) const {
  return state_->run.ranks_[rank].memory;
}
const Contributions& SymbolicRun::contributions() const {
  return state_->run.contributions_;
}

Status run_symbolically(std::span<const Schedule> schedules, const MessageGraph& graph,
                        std::span<const std::uint64_t> part_counts, Sharing sharing, bool rank_ordered) {
  Run run(schedules, part_counts, sharing, rank_ordered);
  for (const MessageGraph::Event& event : graph.events()) {
    if (Status status = run.execute(event); !status.ok()) return status;
  }
  return run.check_outputs();
}

std::vector<std::vector<Known>> follow_barrier(std::span<const Schedule> schedules,
                                               const MessageGraph& graph) {
  std::vector<std::vector<Known>> known(schedules.size());
  for (std::size_t r = 0; r < schedules.size(); ++r) known[r].resize(schedules[r].steps.size());
  const auto before = [&](const StepRef& at) {
    const Schedule& schedule = schedules[at.rank];
    Known all(schedules.size(), false);
    all[at.rank] = true;
    for (const std::uint32_t d : schedule.dependencies_of(schedule.steps[at.step]))
      add(all, known[at.rank][d]);
    return all;
  };
  for (const MessageGraph::Event& event : graph.events()) {
    Known at_sender = before(event.step);
    if (event.is_message) {
      Known at_receiver = before(event.receiver);
      add(at_receiver, at_sender);
      known[event.receiver.rank][event.receiver.step] = std::move(at_receiver);
    }
    known[event.step.rank][event.step.step] = std::move(at_sender);
  }
  return known;
}

Status check_barrier(std::span<const Schedule> schedules, const MessageGraph& graph) {
  const auto known = follow_barrier(schedules, graph);
  for (std::size_t r = 0; r < schedules.size(); ++r) {
    Known all(schedules.size(), false);
    all[r] = true;
    for (const Known& step : known[r]) add(all, step);
    const auto missing = std::find(all.begin(), all.end(), false);
    if (missing == all.end()) continue;
    const std::string why =
        fmt::format("it may leave the barrier before rank {} has come", missing - all.begin());
    if (schedules[r].steps.empty()) return refuse(schedules[r], why);
    return refuse(schedules[r], static_cast<std::uint32_t>(schedules[r].steps.size() - 1), why);
  }
  return {};
}

}  // namespace kolo::schedule
