// What schedules compute, in plain float arithmetic on one thread: the bits that a real run must end with.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kolo/dtype.hpp"
#include "kolo/wire.hpp"
#include "schedule/message_graph.hpp"
#include "schedule/schedule.hpp"

namespace kolo {

/// How numbers are stored, sent and completed. A value.
struct Arithmetic {
  /// float32, float16 or bfloat16. Each addition of 16-bit numbers is computed in float32 and rounded back,
  /// as the kernels compute it; the inputs must be numbers of this type.
  DType element = DType::float32;
  /// What messages and completed chunks are rounded to. Only of float32.
  Wire wire = Wire::native;
  /// Completed sums are divided by the number of ranks. Only of float32.
  bool average = false;
};

/// Runs the schedules of all ranks of an out-of-place sum, or average, with these inputs, one a rank, cut
/// into even parts as a call cuts them. Returns the output of each rank. The schedules must have passed the
/// checker; `graph` is theirs.
std::vector<std::vector<float>> evaluate(std::span<const Schedule> schedules, const MessageGraph& graph,
                                         const std::vector<std::vector<float>>& inputs,
                                         const Arithmetic& arithmetic = {});
/// The same, where the graph is not needed again.
std::vector<std::vector<float>> evaluate(std::span<const Schedule> schedules,
                                         const std::vector<std::vector<float>>& inputs,
                                         const Arithmetic& arithmetic = {});

/// Of each element of an all-reduce, the longest chain of roundings between a contribution and the result.
/// Native float32 and the 16-bit types round once an addition, wire formats once a message and once at the
/// end; the float32 additions between messages, whose roundings are finer by far, are not counted. The error
/// of a sum is at most this number times the unit roundoff times the sum of the contributions' magnitudes, to
/// first order (Higham 1993).
std::vector<int> rounding_depths(std::span<const Schedule> schedules, const MessageGraph& graph,
                                 std::uint64_t count, const Arithmetic& arithmetic = {});

}  // namespace kolo
