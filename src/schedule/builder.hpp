// ScheduleBuilder: used by generators to write steps. It derives the dependencies itself.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <span>
#include <vector>

#include "schedule/hazards.hpp"
#include "schedule/schedule.hpp"

namespace kolo::schedule {

inline ChunkRange input(std::uint32_t begin, std::uint32_t count = 1) {
  return {BufferName::input, begin, count};
}
inline ChunkRange output(std::uint32_t begin, std::uint32_t count = 1) {
  return {BufferName::output, begin, count};
}
/// Slots from `slot` on, one for each chunk of `like`, with the lengths of those chunks.
inline ChunkRange scratch(std::uint32_t slot, ChunkRange like) {
  return {BufferName::scratch, slot, like.count, like.buffer, like.begin};
}

/// Appends steps in program order and derives each step's dependencies from the memory that it touches. A
/// step waits for every earlier step that wrote what it reads, and for every earlier step that read or wrote
/// what it writes. Input and output count as the same memory if the collective may run in place. Steps that
/// touch different memory may run at the same time. `after` adds orderings that memory does not imply.
class ScheduleBuilder {
 public:
  using StepId = std::uint32_t;
  using StepIds = std::vector<StepId>;

  /// Steps to wait for in addition to those that memory implies: `{a, b}`, or any vector of steps.
  struct After : std::span<const StepId> {
    After() = default;
    After(std::initializer_list<StepId> steps) : span(steps.begin(), steps.size()) {}
    After(const StepIds& steps) : span(steps) {}  // NOLINT: implicit on purpose
  };

  /// `chunks` as Schedule::chunks.
  ScheduleBuilder(Collective collective, int rank, int size, int root, std::uint32_t chunks,
                  std::uint32_t scratch_chunks = 0);

  /// Before the first step: adds a slot of scratch for each of these chunks of input or output, counted
  /// around the end. The slots are laid out like the chunks (Schedule::scratch_like).
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
  /// Adds any step; replaces the dependencies that it had.
  StepId add(Step step, After after = {});

  Schedule finish() &&;

 private:
  static constexpr StepId kNoStep = ~StepId{0};

  void track();
  /// Drops the steps of `waits_for_` that are already direct dependencies of its other members.
  void drop_implied(StepId id);

  Schedule schedule_;
  std::vector<HazardTracker> hazards_;  // one for each way in which the schedule may be bound
  StepIds waits_for_;                   // of the step being added
  StepIds implied_by_;                  // for each step, the last step whose list it was dropped from
};

}  // namespace kolo::schedule
