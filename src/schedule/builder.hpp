// ScheduleBuilder: how generators write steps. It finds the dependencies itself.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <span>
#include <vector>

#include "schedule/hazards.hpp"
#include "schedule/schedule.hpp"

namespace kolo {

inline ChunkRange input(std::uint32_t begin, std::uint32_t count = 1) {
  return {BufferName::input, begin, count};
}
inline ChunkRange output(std::uint32_t begin, std::uint32_t count = 1) {
  return {BufferName::output, begin, count};
}
/// Slots from `slot` on, one per chunk of `like`, holding data of those chunks' lengths.
inline ChunkRange scratch(std::uint32_t slot, ChunkRange like) {
  return {BufferName::scratch, slot, like.count, like.buffer, like.begin};
}

/// Appends steps in program order and derives each one's dependencies from the memory it touches: it waits
/// for every earlier step that wrote what it reads, and for every earlier step that read or wrote what it
/// writes (input and output taken as the same memory wherever the collective may run in place). Steps that
/// touch different memory run side by side. `after` adds orderings that memory does not imply.
class ScheduleBuilder {
 public:
  using StepId = std::uint32_t;

  /// Steps to wait for besides those that memory implies: `{a, b}`, or any vector of steps.
  struct After : std::span<const StepId> {
    After() = default;
    After(std::initializer_list<StepId> steps) : span(steps.begin(), steps.size()) {}
    After(const std::vector<StepId>& steps) : span(steps) {}  // NOLINT: implicit on purpose
  };

  /// `chunks` as Schedule::chunks.
  ScheduleBuilder(Collective collective, int rank, int size, int root, std::uint32_t chunks,
                  std::uint32_t scratch_chunks = 0);

  /// Before the first step: scratch has a slot more for each of these chunks of input or output, counted
  /// around the end, and these slots are laid out as they are (Schedule::scratch_like).
  void lay_scratch_like(ChunkRange chunks);
  /// Before the first step: the schedule is never bound in place, so input and output do not conflict.
  void require_out_of_place();

  StepId send(int peer, ChunkRange from, After after = {});
  StepId recv(int peer, ChunkRange to, After after = {});
  /// to = operand op incoming.
  StepId recv_reduce(int peer, ChunkRange to, ChunkRange operand, bool completes, After after = {});
  /// to = incoming op operand.
  StepId recv_reduce_incoming_first(int peer, ChunkRange to, ChunkRange operand, bool completes,
                                    After after = {});
  /// to = left op right.
  StepId reduce(ChunkRange to, ChunkRange left, ChunkRange right, bool completes, After after = {});
  StepId copy(ChunkRange to, ChunkRange from, After after = {});
  /// Empty messages, for barriers.
  StepId notify(int peer, After after = {});
  StepId await(int peer, After after = {});
  /// Any step; whatever dependencies it had are replaced.
  StepId add(Step step, After after = {});

  Schedule finish() &&;

 private:
  static constexpr StepId kNobody = ~StepId{0};

  void track();
  /// Drops what waits_for_ holds already through the direct dependencies of its other members.
  void drop_implied(StepId id);

  Schedule schedule_;
  std::vector<HazardTracker> hazards_;  // one for each way in which the schedule may be bound
  std::vector<StepId> waits_for_;       // of the step being added
  std::vector<StepId> implied_by_;      // for each step, the last step whose list it was dropped from
};

}  // namespace kolo
