// The symbolic run: what every rank's memory holds, without a single number.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/status.hpp"
#include "schedule/contributions.hpp"
#include "schedule/lengths.hpp"
#include "schedule/memory_map.hpp"
#include "schedule/message_graph.hpp"
#include "schedule/schedule.hpp"
#include "schedule/symbolic_memory.hpp"

namespace kolo {

/// The memories of all ranks while events happen, bound as `sharing` says. The schedules must have passed the
/// checks of rank_check.hpp; then every order of events that respects their waits gives the same result.
class SymbolicRun {
 public:
  using Pieces = std::vector<Piece>;

  SymbolicRun(std::span<const Schedule> schedules, std::span<const std::uint64_t> part_counts,
              Sharing sharing, bool rank_ordered);

  Status execute(const MessageGraph::Event& event);
  /// Proves what every output holds, once all events have happened.
  Status check_outputs() const;
  /// The same of one chunk of one rank, at any time.
  Status check_output(const Schedule& schedule, std::uint32_t chunk) const;

  /// Appends what a range of a rank's memory holds; `at`: the step that wants to know.
  Status read(const StepRef& at, const ChunkRange& range, Pieces& out) const;
  const SymbolicMemory& memory(std::size_t rank) const { return ranks_[rank].memory; }
  const Contributions& contributions() const { return contributions_; }

 private:
  /// One rank: its cells laid out one after the other.
  struct Rank {
    Rank(const Schedule& schedule, ChunkLengths chunk_lengths, Sharing sharing);
    std::uint64_t offset_of(const ChunkRange& range) const { return offsets[map.first_cell(range)]; }

    ChunkLengths lengths;
    MemoryMap map;
    std::vector<std::uint64_t> offsets;
    SymbolicMemory memory;
  };

  const Step& step_of(const StepRef& ref) const;
  Status fault(const StepRef& ref, const std::string& why) const;
  void write(const StepRef& at, Pieces pieces);
  Status receive(const StepRef& at, const StepRef& sender, Pieces incoming);
  /// `out` may be one of the operands. Both are equally long.
  Status combine(const StepRef& at, const Pieces& left, const Pieces& right, Pieces& out);
  Status check_completes(const StepRef& at, Contributions::Set who) const;
  /// "part 2, element 5".
  std::string place(std::uint64_t origin) const;

  std::span<const Schedule> schedules_;
  Sharing sharing_;
  Contributions contributions_;
  std::vector<std::uint64_t> origins_;  // of each part, in the whole data; then its length
  std::vector<Rank> ranks_;
};

/// Which part of the whole data a chunk of the output is.
std::uint32_t output_part(const Schedule& schedule, std::uint32_t chunk);

/// Runs the events in their order and proves what every output holds.
Status run_symbolically(std::span<const Schedule> schedules, const MessageGraph& graph,
                        std::span<const std::uint64_t> part_counts, Sharing sharing, bool rank_ordered);

/// Which ranks are known to have started, by rank.
using Known = std::vector<bool>;
/// For a barrier: what each rank knows once each of its steps is done.
std::vector<std::vector<Known>> follow_barrier(std::span<const Schedule> schedules,
                                               const MessageGraph& graph);

/// For a barrier: proves that no rank can finish before every rank has started.
Status check_barrier(std::span<const Schedule> schedules, const MessageGraph& graph);

}  // namespace kolo
