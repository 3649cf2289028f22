#include "schedule/builder.hpp"

#include <algorithm>

namespace kolo::schedule {

ScheduleBuilder::ScheduleBuilder(Collective collective, int rank, int size, int root, std::uint32_t chunks,
                                 std::uint32_t scratch_chunks) {
  schedule_.collective = collective;
  schedule_.rank = rank;
  schedule_.size = size;
  schedule_.root = root;
  schedule_.chunks = chunks;
  schedule_.scratch_chunks = scratch_chunks;
  track();
}

void ScheduleBuilder::lay_scratch_like(ChunkRange chunks) {
  schedule_.scratch_like.push_back(chunks);
  schedule_.scratch_chunks += chunks.count;
  track();
}

void ScheduleBuilder::require_out_of_place() {
  schedule_.out_of_place_only = true;
  track();
}

void ScheduleBuilder::track() {
  hazards_.clear();
  for (const Sharing sharing : kSharings) {
    if (may_be(schedule_, sharing)) hazards_.emplace_back(MemoryMap(schedule_, sharing));
  }
}

ScheduleBuilder::StepId ScheduleBuilder::send(int peer, ChunkRange from, After after) {
  return add({.kind = StepKind::send, .peer = peer, .dst = {}, .a = from, .b = {}}, after);
}

ScheduleBuilder::StepId ScheduleBuilder::recv(int peer, ChunkRange to, After after) {
  return add({.kind = StepKind::recv, .peer = peer, .dst = to, .a = {}, .b = {}}, after);
}

ScheduleBuilder::StepId ScheduleBuilder::recv_reduce(int peer, ChunkRange to, ChunkRange operand,
                                                     bool completes, After after) {
  return add(
      {.kind = StepKind::recv_reduce, .completes = completes, .peer = peer, .dst = to, .a = operand, .b = {}},
      after);
}

ScheduleBuilder::StepId ScheduleBuilder::recv_reduce_incoming_first(int peer, ChunkRange to,
                                                                    ChunkRange operand, bool completes,
                                                                    After after) {
  return add({.kind = StepKind::recv_reduce,
              .incoming_first = true,
              .completes = completes,
              .peer = peer,
              .dst = to,
              .a = operand,
              .b = {}},
             after);
}

ScheduleBuilder::StepId ScheduleBuilder::reduce(ChunkRange to, ChunkRange left, ChunkRange right,
                                                bool completes, After after) {
  return add({.kind = StepKind::reduce, .completes = completes, .dst = to, .a = left, .b = right}, after);
}

ScheduleBuilder::StepId ScheduleBuilder::copy(ChunkRange to, ChunkRange from, After after) {
  return add({.kind = StepKind::copy, .dst = to, .a = from, .b = {}}, after);
}

ScheduleBuilder::StepId ScheduleBuilder::notify(int peer, After after) {
  return send(peer, {}, after);
}

ScheduleBuilder::StepId ScheduleBuilder::await(int peer, After after) {
  return recv(peer, {}, after);
}

ScheduleBuilder::StepId ScheduleBuilder::add(Step step, After after) {
  const auto id = static_cast<StepId>(schedule_.steps.size());
  waits_for_.assign(after.begin(), after.end());
  for (HazardTracker& hazards : hazards_) hazards.visit(id, step, waits_for_);
  std::sort(waits_for_.begin(), waits_for_.end());
  waits_for_.erase(std::unique(waits_for_.begin(), waits_for_.end()), waits_for_.end());
  drop_implied(id);
  step.first_dependency = static_cast<std::uint32_t>(schedule_.dependencies.size());
  step.dependency_count = static_cast<std::uint32_t>(waits_for_.size());
  schedule_.dependencies.insert(schedule_.dependencies.end(), waits_for_.begin(), waits_for_.end());
  schedule_.steps.push_back(step);
  implied_by_.push_back(kNoStep);
  return id;
}

void ScheduleBuilder::drop_implied(StepId id) {
  if (waits_for_.size() < 2) return;
  for (const StepId waited : waits_for_) {
    for (const StepId before : schedule_.dependencies_of(schedule_.steps[waited])) implied_by_[before] = id;
  }
  std::erase_if(waits_for_, [&](StepId waited) { return implied_by_[waited] == id; });
}

Schedule ScheduleBuilder::finish() && {
  return std::move(schedule_);
}

}  // namespace kolo::schedule
