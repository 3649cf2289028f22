// The collectives, and in one table what each of them does with its data.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace kolo::schedule {

enum class Collective : std::uint8_t {
  all_reduce,
  reduce_scatter,
  all_gather,
  broadcast,
  reduce,
  scatter,
  gather,
  all_to_all,
  scan,
  barrier,
  send_recv,
};

/// How a buffer divides into chunks (N ranks; C: the schedule's `chunks`). The whole data is what all ranks
/// have together.
enum class Parts : std::uint8_t {
  none,      ///< it has no data
  chunks,    ///< C parts of the whole data, as the algorithm divides it
  per_rank,  ///< N parts, one per rank
  own,       ///< one part: the rank's own
};

/// Whether input and output may be the same memory. Then the smaller of the two is the rank's own part of the
/// larger one; if both divide alike, they are the same.
enum class Placement : std::uint8_t { apart, either, in_place };

/// One row of the table. All code that depends on what a collective does reads it.
struct CollectiveTraits {
  std::string_view name;
  Parts input = Parts::none;
  Parts output = Parts::none;
  bool reduces = false;  ///< outputs hold the reduction of all contributions; else data of one rank each
  bool prefix = false;   ///< of a reduction: rank r's output holds ranks 0 to r, in this order
  bool input_at_root = false;   ///< only the root has input
  bool output_at_root = false;  ///< only the root has output
  Placement placement = Placement::either;

  /// Which of the two is the larger one's own part in place; neither if they divide alike.
  constexpr bool input_within_output() const { return input == Parts::own && output == Parts::per_rank; }
  constexpr bool output_within_input() const { return input == Parts::per_rank && output == Parts::own; }
  constexpr bool has_root() const { return input_at_root || output_at_root; }
  constexpr bool has_input(bool is_root) const { return input != Parts::none && (is_root || !input_at_root); }
  constexpr bool has_output(bool is_root) const {
    return output != Parts::none && (is_root || !output_at_root);
  }
};

/// By Collective. A new collective is a row here, and one in the enumeration.
inline constexpr auto kCollectives = std::to_array<CollectiveTraits>({
    {.name = "all_reduce", .input = Parts::chunks, .output = Parts::chunks, .reduces = true},
    {.name = "reduce_scatter", .input = Parts::per_rank, .output = Parts::own, .reduces = true},
    {.name = "all_gather", .input = Parts::own, .output = Parts::per_rank},
    {.name = "broadcast",
     .input = Parts::chunks,
     .output = Parts::chunks,
     .input_at_root = true,
     .placement = Placement::in_place},
    {.name = "reduce",
     .input = Parts::chunks,
     .output = Parts::chunks,
     .reduces = true,
     .output_at_root = true},
    {.name = "scatter", .input = Parts::per_rank, .output = Parts::own, .input_at_root = true},
    {.name = "gather", .input = Parts::own, .output = Parts::per_rank, .output_at_root = true},
    {.name = "all_to_all", .input = Parts::per_rank, .output = Parts::per_rank},
    {.name = "scan", .input = Parts::chunks, .output = Parts::chunks, .reduces = true, .prefix = true},
    {.name = "barrier", .placement = Placement::apart},
    {.name = "send_recv", .input = Parts::own, .output = Parts::own, .placement = Placement::apart},
});

constexpr const CollectiveTraits& traits_of(Collective collective) noexcept {
  return kCollectives[static_cast<std::size_t>(collective)];
}
constexpr bool is_reducing(Collective collective) noexcept {
  return traits_of(collective).reduces;
}
constexpr bool has_root(Collective collective) noexcept {
  return traits_of(collective).has_root();
}

/// "unknown" if there is no such collective.
std::string_view name_of(Collective collective) noexcept;
/// The inverse. Returns false, and does not change `out`, if no collective has this name.
bool parse_collective(std::string_view name, Collective& out) noexcept;

}  // namespace kolo::schedule
