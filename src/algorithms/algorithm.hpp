// Algorithm: a named pure function from (collective, rank, size, root, arguments) to a schedule, and the
// registry of them.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "algorithms/arguments.hpp"
#include "base/status.hpp"
#include "schedule/schedule.hpp"

namespace kolo {

/// What a generator is asked for. A value.
struct ScheduleSpec {
  Collective collective = Collective::all_reduce;
  int rank = 0;
  int size = 1;
  int root = 0;
  Arguments arguments = {};  ///< of parameters that the algorithm has; the others take their defaults
  /// Where the ranks are: the host's number (0, 1, ...) of each; empty: all on one host.
  std::vector<int> hosts = {};

  bool operator==(const ScheduleSpec&) const = default;
};

/// What a call costs, counted in whole steps and chunks.
struct StepsAndBytes {
  std::uint64_t steps = 0;  ///< each rank sends at most one message and receives at most one in each
  std::uint64_t sent = 0;   ///< by the rank that sends most, in the schedule's chunks, all equally long

  bool operator==(const StepsAndBytes&) const = default;
};

/// The cost that an algorithm's source states. N ranks; K: the bytes of the whole data (of all parts, where
/// each rank has one). A test holds the counted cost of its schedules to it.
struct ClosedForm {
  std::string_view steps;  ///< "2(N-1)"
  std::string_view sent;   ///< by the rank that sends most: "2(N-1)/N K"
  bool at_most = false;    ///< a bound: there are cases in which it costs less
  StepsAndBytes (*of)(const ScheduleSpec& spec);
};

/// One algorithm of one collective. Generators are pure, allocate only the schedule, and serve every size >=
/// 1, every root and all arguments that `objection` has nothing against.
struct Algorithm {
  Collective collective;
  std::string_view name;     ///< "ring"
  std::string_view purpose;  ///< one line for people
  std::string_view use;      ///< one line: when it is the one to take
  std::string_view source;   ///< paper and section
  /// Operands are combined in rank order, so that operations that are not commutative are right.
  bool rank_ordered = false;
  bool out_of_place_only = false;  ///< as Schedule::out_of_place_only
  bool even_parts_only = false;    ///< every part must be as long as every other
  /// Ranks that share a host's memory run it there without messages, with the same result bit for bit.
  bool native = false;
  std::span<const Parameter> parameters = {};
  ClosedForm closed_form;
  /// Why it cannot serve these arguments with so many ranks; empty where it can. Null: it always can.
  std::string (*objection)(const ScheduleSpec& spec) = nullptr;
  Schedule (*generate)(const ScheduleSpec& spec);
};

/// All registered algorithms, ordered by collective.
std::span<const Algorithm> algorithms();

/// The inverse of name_of(), with an error that lists the known names.
Result<Collective> require_collective(std::string_view name);

/// Null when there is none.
const Algorithm* find_algorithm(Collective collective, std::string_view name);

/// The same with an error that lists the known names.
Result<const Algorithm*> require_algorithm(Collective collective, std::string_view name);

/// The schedules of all ranks of `spec`, whose own rank does not matter.
std::vector<Schedule> generate_all(const Algorithm& algorithm, ScheduleSpec spec);

/// An algorithm and its arguments, as people write them: "ring", "k_nomial:radix=4". A value.
struct Configured {
  const Algorithm* algorithm = nullptr;
  Arguments arguments = {};

  std::string name() const { return std::string(algorithm->name) + arguments.text(); }
  bool operator==(const Configured&) const = default;
};

/// Reads "NAME[:PARAMETER=VALUE]...". An unknown algorithm or parameter is an error that lists the known
/// ones.
Result<Configured> parse_algorithm(Collective collective, std::string_view text);

/// What a call demands beyond its spec.
struct Demands {
  bool rank_order = false;  ///< the reduction is not commutative
  bool custom = false;      ///< the reduction is the caller's own, which never runs natively
  bool in_place = false;
  bool uneven = false;  ///< parts of different lengths
  /// What is sent is rounded to a wire format: never natively, and every chunk must be completed once only.
  bool rounded = false;
};

/// Whether the algorithm can serve this call, or an error that says which cannot and why.
Status supports(const Algorithm& algorithm, const ScheduleSpec& spec, const Demands& demands = {});

}  // namespace kolo
