// Plan: a schedule lowered to byte ranges and segments, ready to run on any memory of its shape.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "schedule/call_key.hpp"
#include "schedule/schedule.hpp"

namespace kolo::engine {

/// A step, or one segment of a long one. Offsets are in bytes from the start of the buffer named.
struct PlanStep {
  schedule::StepKind kind = schedule::StepKind::copy;
  bool incoming_first = false;
  bool completes = false;
  schedule::BufferName dst_buffer = schedule::BufferName::scratch;
  schedule::BufferName a_buffer = schedule::BufferName::scratch;
  schedule::BufferName b_buffer = schedule::BufferName::scratch;
  std::int32_t peer = -1;
  std::uint32_t message = 0;   ///< number of the message between the two ranks, in their schedules' order
  std::uint32_t step = 0;      ///< index in the schedule
  std::uint32_t segments = 1;  ///< number of segments of that schedule step
  std::uint32_t dependencies = 0;
  std::uint32_t first_dependent = 0;  ///< into Plan::dependents
  std::uint32_t dependent_count = 0;
  std::uint64_t dst = 0;
  std::uint64_t a = 0;
  std::uint64_t b = 0;
  std::uint64_t bytes = 0;
  std::uint64_t wire_bytes = 0;  ///< of its message
};

struct Plan {
  std::vector<PlanStep> steps;
  std::vector<std::uint32_t> dependents;
  /// Where each chunk of input and output begins, in bytes, and the end.
  std::vector<std::uint64_t> input_offsets, output_offsets;
  std::uint64_t scratch_bytes = 0;
  std::uint64_t longest_message = 0;  ///< in wire bytes
  std::uint64_t sent_bytes = 0;       ///< of all messages that this rank sends
};

/// Pure. Cuts steps longer than segment_bytes into segments (of whole elements, or blocks of the wire format)
/// and orders them by the memory that each of them touches, so that a segment can be sent on while the next
/// one is still arriving. Orderings of the schedule that memory does not imply hold for all segments of the
/// two steps.
std::shared_ptr<const Plan> make_plan(const schedule::Schedule& schedule, const schedule::CallKey& key);

}  // namespace kolo::engine
