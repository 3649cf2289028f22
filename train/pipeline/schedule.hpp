// Schedules of pipelines as data: what a rank computes, in order.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kolo/train/pipeline_parallel.hpp"

namespace kolo::train {

/// Forward or backward of one micro-batch through one of the rank's chunks.
struct Action {
  bool is_forward = true;
  int micro_batch = 0;
  int chunk = 0;
  bool operator==(const Action&) const = default;
};

/// What makes a schedule. Chunk c of rank r is stage c * ranks + r of ranks * chunks.
struct PipelineShape {
  PipelineSchedule schedule = PipelineSchedule::one_forward_one_backward;
  int ranks = 1;
  int micro_batches = 1;
  int chunks = 1;

  int stages() const noexcept { return ranks * chunks; }
  int last_stage() const noexcept { return stages() - 1; }
};

/// What is wrong with such a shape, in words; empty if nothing is.
std::string problem_of_shape(const PipelineShape& shape);

/// Pure: each rank can derive the actions of all ranks. The shape has no problem. Every stage's forward of a
/// micro-batch comes before its backward, and ranks that wait for what an action needs do not wait for each
/// other, whatever computing and sending takes.
/// Without backward: the forwards alone, in this order.
std::vector<Action> actions_of(const PipelineShape& shape, int rank, bool with_backward = true);

}  // namespace kolo::train
