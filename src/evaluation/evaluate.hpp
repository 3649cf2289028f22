// Runs schedules in plain float arithmetic on one thread: gives the bits that a real run must end with.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kolo/dtype.hpp"
#include "kolo/wire.hpp"
#include "schedule/message_graph.hpp"
#include "schedule/schedule.hpp"

namespace kolo::evaluation {

/// How numbers are stored, sent and completed. A value.
struct Arithmetic {
  /// float32 or a shorter floating type. Each addition of shorter numbers is computed in float32 and rounded
  /// back, as the kernels compute it; the inputs must be numbers of this type.
  DType element = DType::float32;
  /// The format to which messages and completed chunks are rounded. Only for float32.
  Wire wire = Wire::native;
  /// Completed sums are divided by the number of ranks. Only for float32.
  bool average = false;
};

/// Runs the schedules of all ranks of an out-of-place sum, or average. `inputs` has one input for each rank,
/// cut into even parts as a call cuts them. Returns the output of each rank. The schedules must have passed
/// the checker; `graph` is theirs.
std::vector<std::vector<float>> evaluate(std::span<const schedule::Schedule> schedules,
                                         const schedule::MessageGraph& graph,
                                         const std::vector<std::vector<float>>& inputs,
                                         const Arithmetic& arithmetic = {});
/// The same, for callers that do not need the graph.
std::vector<std::vector<float>> evaluate(std::span<const schedule::Schedule> schedules,
                                         const std::vector<std::vector<float>>& inputs,
                                         const Arithmetic& arithmetic = {});

/// For each element of an all_reduce, the longest chain of roundings between a contribution and the result.
/// Native float32 and the 16-bit types round once for each addition. Wire formats round once for each message
/// and once at the end; the float32 additions between messages round much more finely and are not counted. To
/// first order, the error of a sum is at most this number times the unit roundoff times the sum of the
/// contributions' magnitudes (Higham 1993).
std::vector<int> rounding_depths(std::span<const schedule::Schedule> schedules,
                                 const schedule::MessageGraph& graph, std::uint64_t count,
                                 const Arithmetic& arithmetic = {});

}  // namespace kolo::evaluation
