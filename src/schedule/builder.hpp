// ScheduleBuilder: how generators write steps. It finds the dependencies itself.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <vector>

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

/// Appends steps in program order and derives each one's dependencies from the memory it touches: it waits for
/// every earlier step that wrote what it reads, and for every earlier step that read or wrote what it writes
/// (input and output taken as the same memory wherever the collective may run in place). Steps that touch
/// different memory run side by side. `after` adds orderings that memory does not imply.
class ScheduleBuilder {
 public:
  using StepId = std::uint32_t;
  using After = std::initializer_list<StepId>;

  /// `chunks` as Schedule::chunks.
  ScheduleBuilder(Collective collective, int rank, int size, int root, std::uint32_t chunks,
                  std::uint32_t scratch_chunks = 0);

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

  Schedule finish() &&;

 private:
  StepId add(Step step, After after);

  Schedule schedule_;
};

}  // namespace kolo
