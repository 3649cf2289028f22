// Butterflies of any degrees: layers of exchanges within groups, and the two halves of an all_reduce over
// them.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "algorithms/algorithm.hpp"
#include "algorithms/formula.hpp"
#include "algorithms/group.hpp"
#include "algorithms/turns.hpp"
#include "schedule/builder.hpp"

namespace kolo::algorithms {

inline constexpr std::array<Parameter, 1> kButterflyParameters = {
    {{"degrees",
      "ranks in a group of each layer, as in 4-2; their product is N; else N's prime factors, largest first",
      ParameterKind::numbers}}};
inline constexpr std::string_view kButterflySource =
    "H. Zhao, J. Canny: Kylix: A sparse allreduce for commodity clusters, ICPP 2014, section 3, on dense "
    "data";

/// For algorithms with the parameter `degrees`. The fewest steps are the sum of (p - 1) over the prime
/// factors p of N, in any order. Largest first: in Kylix, sparse data shrink most where they are shared out
/// among most ranks.
std::vector<int> butterfly_degrees(const ScheduleSpec& spec);
std::string butterfly_objection(const ScheduleSpec& spec);
std::uint64_t butterfly_steps(const ScheduleSpec& spec);  ///< of one half: reduce-scatter or all-gather

inline constexpr ClosedForm kButterflyHalf = {
    .steps = "sum of (d-1) over the degrees d",
    .sent = "(N-1)/N n",
    .cost = [](std::uint64_t n, const ScheduleSpec& spec) -> StepsAndBytes {
      return {butterfly_steps(spec), n - 1};
    },
};

/// 2, 2, ..., with the product `size`, a power of two.
std::vector<int> twos(std::uint32_t size);

/// One layer: a block of chunks that all members hold is shared out among them.
struct ButterflyLayer {
  Group group;
  std::uint32_t begin;  ///< of the block, and of the first member's part
  std::uint32_t part;   ///< chunks in each member's part

  /// The part of the member `places` after this rank.
  schedule::ChunkRange of(int places, schedule::BufferName buffer) const;
  schedule::ChunkRange own(schedule::BufferName buffer) const { return of(0, buffer); }
  std::uint32_t own_begin() const { return own(schedule::BufferName::input).begin; }
};

/// The layer whose groups consist of neighbours. First: each combined value is always a run of neighbours in
/// their order, and the member at place i ends with the chunks of i's digits reversed. Last: the member at
/// place i ends with the i-th chunks, in order.
enum class Near : std::uint8_t { first, last };

/// This rank's layers. The size of the group is the product of the degrees and divides `chunks`. A degree of
/// 1 gives no layer.
std::vector<ButterflyLayer> butterfly_layers(const Group& everyone, const std::vector<int>& degrees,
                                             std::uint32_t chunks, Near near);

/// Slots of scratch that butterfly_reduce_scatter() needs.
std::uint32_t butterfly_scratch(const std::vector<ButterflyLayer>& layers);

/// Needs layers made with Near::first. Starts with all chunks in `held` (input, or output if it holds data
/// already). Ends with the last layer's own part in output, combined in the order of the group.
void butterfly_reduce_scatter(schedule::ScheduleBuilder& builder, Turns& turns,
                              const std::vector<ButterflyLayer>& layers, schedule::BufferName held,
                              bool completes = true);

/// Runs the layers in reverse. Starts with the last layer's own part in output, ends with all chunks there.
void butterfly_all_gather(schedule::ScheduleBuilder& builder, Turns& turns,
                          const std::vector<ButterflyLayer>& layers);

}  // namespace kolo::algorithms
