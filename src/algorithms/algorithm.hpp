// Algorithm: a named pure function from (collective, rank, size, root, arguments) to a schedule, and the
// registry of all algorithms.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "algorithms/arguments.hpp"
#include "base/status.hpp"
#include "schedule/call_key.hpp"
#include "schedule/schedule.hpp"
#include "schedule/shared_memory_form.hpp"

namespace kolo::algorithms {

/// The arguments of a generator. A value.
struct ScheduleSpec {
  schedule::Collective collective = schedule::Collective::all_reduce;
  int rank = 0;
  int size = 1;
  int root = 0;
  Arguments arguments = {};  ///< parameters not named here take their defaults
  /// The host's number (0, 1, ...) of each rank; empty: all ranks are on one host.
  std::vector<int> hosts = {};

  bool operator==(const ScheduleSpec&) const = default;
};

/// What a call costs, counted in whole steps and chunks.
struct StepsAndBytes {
  std::uint64_t steps = 0;  ///< in each, a rank sends at most one message and receives at most one
  std::uint64_t sent = 0;   ///< by the rank that sends most, in the schedule's chunks, all equally long

  bool operator==(const StepsAndBytes&) const = default;
};

/// The cost that an algorithm's source states. N ranks; n: the bytes of the whole data (of all parts
/// together, if each rank has one). A test compares it with the counted cost of the schedules.
struct ClosedForm {
  std::string_view steps;  ///< "2(N-1)"
  std::string_view sent;   ///< by the rank that sends most: "2(N-1)/N n"
  bool at_most = false;    ///< a bound: some cases cost less
  StepsAndBytes (*cost)(std::uint64_t n, const ScheduleSpec& spec);  ///< of `n` ranks

  StepsAndBytes of(const ScheduleSpec& spec) const {
    return cost(static_cast<std::uint64_t>(spec.size), spec);
  }
};

/// One algorithm of one collective. Generators are pure, allocate only the schedule, and serve every size >=
/// 1, every root and all arguments to which `objection` has no error.
struct Algorithm {
  schedule::Collective collective;
  std::string_view name;     ///< "ring"
  std::string_view purpose;  ///< one line, human-readable
  std::string_view use;      ///< one line: when to use it
  std::string_view source;   ///< paper and section
  /// Operands are combined in rank order, so operations that are not commutative give the right result.
  bool rank_ordered = false;
  bool out_of_place_only = false;                                   ///< as Schedule::out_of_place_only
  bool even_parts_only = false;                                     ///< all parts must have the same length
  std::optional<schedule::SharedMemoryForm> in_shared_memory = {};  ///< how ranks that share memory run it
  std::span<const Parameter> parameters = {};
  /// Arguments worth trying besides the defaults, as in "radix=2". Which are best depends on the data's size.
  std::span<const std::string_view> tried = {};
  /// Arguments worth trying with which the ranks of `slow_hosts` send the data once and receive it once.
  /// Null: there are none.
  std::vector<Arguments> (*sparing)(const ScheduleSpec& spec, const std::vector<int>& slow_hosts) = nullptr;
  /// The arguments of `spec`, with rings through all ranks or hosts in the order of `ring`, all ranks, unless
  /// they have an order. Null: there is no such ring.
  Arguments (*in_order)(const ScheduleSpec& spec, const std::vector<int>& ring) = nullptr;
  ClosedForm closed_form;
  /// Why it cannot serve these arguments with so many ranks; empty if it can. Null: it always can.
  std::string (*objection)(const ScheduleSpec& spec) = nullptr;
  schedule::Schedule (*generate)(const ScheduleSpec& spec);
};

/// All registered algorithms, ordered by collective.
std::span<const Algorithm> algorithms();

/// The inverse of name_of(), with an error that lists the known names.
Result<schedule::Collective> require_collective(std::string_view name);

/// Null if there is none.
const Algorithm* find_algorithm(schedule::Collective collective, std::string_view name);

/// The names of the collectives that have an algorithm of this name.
std::vector<std::string_view> collectives_with(std::string_view algorithm);

/// Like find_algorithm(), with an error that lists the known names and ends with the collectives that have
/// one of that name.
Result<const Algorithm*> require_algorithm(schedule::Collective collective, std::string_view name);

/// The schedules of all ranks of `spec`, whose own rank does not matter.
std::vector<schedule::Schedule> generate_all(const Algorithm& algorithm, ScheduleSpec spec);

/// An algorithm and its arguments, in text form: "ring", "k_nomial:radix=4". A value.
struct ConfiguredAlgorithm {
  const Algorithm* algorithm = nullptr;
  Arguments arguments = {};

  std::string name() const { return std::string(algorithm->name) + arguments.text(); }
  bool operator==(const ConfiguredAlgorithm&) const = default;
};

/// Reads "NAME[:PARAMETER=VALUE]...". For an unknown algorithm or parameter the error lists the known ones.
Result<ConfiguredAlgorithm> parse_algorithm(schedule::Collective collective, std::string_view text);

/// Whether the algorithm can serve calls with this key, whose collective and root are those of `spec`; the
/// error says what it cannot do and why.
Status supports(const Algorithm& algorithm, const ScheduleSpec& spec, const schedule::CallKey& key = {});

/// How such a call runs where all ranks share memory; null if it sends messages there, too.
const schedule::SharedMemoryForm* form_of(const Algorithm& algorithm, const schedule::CallKey& key);

}  // namespace kolo::algorithms
