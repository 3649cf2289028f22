// The symbolic run: what every rank's memory holds, without any numbers.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/status.hpp"
#include "schedule/contributions.hpp"
#include "schedule/memory_map.hpp"
#include "schedule/message_graph.hpp"
#include "schedule/schedule.hpp"
#include "schedule/symbolic_memory.hpp"

namespace kolo::schedule {

/// Runs the events in their order on symbolic memory, bound as `sharing` says, and proves what every output
/// holds. The schedules must have passed the checks of rank_check.hpp: then every order of events gives the
/// same result.
Status run_symbolically(std::span<const Schedule> schedules, const MessageGraph& graph,
                        std::span<const std::uint64_t> part_counts, Sharing sharing, bool rank_ordered);

/// The same run, event by event, for callers that watch it: drawings follow contributions as proofs do.
/// Events may come in any order that respects their waits.
class SymbolicRun {
 public:
  SymbolicRun(std::span<const Schedule> schedules, std::span<const std::uint64_t> part_counts,
              Sharing sharing, bool rank_ordered);
  ~SymbolicRun();

  Status execute(const MessageGraph::Event& event);
  /// Whether a chunk of a rank's output already holds its final contents.
  Status check_output(const Schedule& schedule, std::uint32_t chunk) const;
  /// The part of the whole data that a chunk of the output holds.
  static std::uint32_t part_of(const Schedule& schedule, std::uint32_t chunk);

  /// Appends what a range of a rank's memory holds. `at`: the step that reads it, for the error.
  Status read(const StepRef& at, const ChunkRange& range, std::vector<Piece>& out) const;
  const SymbolicMemory& memory(std::size_t rank) const;
  const Contributions& contributions() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// For each rank, whether it is known to have started.
using Known = std::vector<bool>;
/// For a barrier: what each rank knows after each of its steps.
std::vector<std::vector<Known>> follow_barrier(std::span<const Schedule> schedules,
                                               const MessageGraph& graph);

/// For a barrier: proves that no rank can finish before every rank has started.
Status check_barrier(std::span<const Schedule> schedules, const MessageGraph& graph);

}  // namespace kolo::schedule
