// Algorithm: a named pure function from (collective, rank, size, root) to a schedule, and the registry of
// them.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/status.hpp"
#include "schedule/schedule.hpp"

namespace kolo {

/// What a generator is asked for. A value.
struct ScheduleSpec {
  Collective collective = Collective::all_reduce;
  int rank = 0;
  int size = 1;
  int root = 0;

  bool operator==(const ScheduleSpec&) const = default;
};

/// One algorithm of one collective. Generators are pure, allocate only the schedule, and serve every size >=
/// 1 and every root that supports() accepts.
struct Algorithm {
  Collective collective;
  std::string_view name;     ///< "ring"
  std::string_view purpose;  ///< one line for people
  std::string_view source;   ///< paper and section
  /// Operands are combined in rank order, so that operations that are not commutative are right.
  bool rank_ordered;
  Schedule (*generate)(const ScheduleSpec& spec);
};

/// All registered algorithms, ordered by collective; the first of each collective is its default.
std::span<const Algorithm> algorithms();

/// Null when there is none.
const Algorithm* find_algorithm(Collective collective, std::string_view name);

/// The same with an error that lists the known names.
Result<const Algorithm*> require_algorithm(Collective collective, std::string_view name);

}  // namespace kolo
