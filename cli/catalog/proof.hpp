// Proof: the checker's result for an algorithm with a number of ranks and elements; the spec that shows it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "algorithms/algorithm.hpp"
#include "schedule/checker.hpp"

namespace kolo::cli {

/// A value.
struct Proof {
  std::string unable;          ///< why the algorithm cannot serve the case; then no other member is valid
  std::string refusal;         ///< the checker's sentence; empty: proved
  std::uint64_t elements = 0;  ///< of the whole data
  schedule::ScheduleTotals totals;  ///< in elements; zero if refused
  /// The counts with chunks of one element each, as closed forms count.
  algorithms::StepsAndBytes counted;
  algorithms::StepsAndBytes stated;
  bool at_most = false;  ///< the stated counts are upper bounds

  bool proved() const { return unable.empty() && refusal.empty(); }
  bool as_stated() const {
    return at_most ? counted.steps <= stated.steps && counted.sent <= stated.sent : counted == stated;
  }
  /// Proved, and the counts are as stated.
  bool fine() const { return !unable.empty() || (proved() && as_stated()); }
};

/// A text of the closed form, with "at most" in front if it is a bound.
std::string stated_text(const algorithms::ClosedForm& form, std::string_view text);

/// `count`: elements of the whole data, cut into parts of nearly equal length; nullopt: one element for each
/// chunk.
Proof prove(const algorithms::ConfiguredAlgorithm& configured, const algorithms::ScheduleSpec& spec,
            std::optional<std::uint64_t> count);

/// The spec with which an algorithm is shown: `ranks` ranks on one host, or on hosts of unequal size if the
/// algorithm's messages depend on hosts. Root 0.
algorithms::ScheduleSpec example_of(const algorithms::Algorithm& algorithm, int ranks);

}  // namespace kolo::cli
