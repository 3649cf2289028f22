// Grid: measures every algorithm at every size, and compares kolo's choice with the fastest.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "bench/settings.hpp"
#include "bench/statistics.hpp"
#include "kolo/communicator.hpp"
#include "selection/table.hpp"
#include "text/json_lines.hpp"

namespace kolo::bench {

/// One size: the time of each algorithm, and kolo's choice.
struct GridColumn {
  std::uint64_t bytes = 0;
  std::vector<double> us;  ///< by Grid::algorithms, as many as were known at this size; see measure_grid()
  std::vector<bool> in_final;  ///< by Grid::algorithms: measured again in the final; the choice always is
  std::size_t choice = 0;      ///< into Grid::algorithms
  std::size_t fastest = 0;     ///< into Grid::algorithms; the fastest in the final
  Ratio ratio;                 ///< time of the choice divided by time of the fastest

  /// How much slower the choice is than the fastest: 0.1 is a tenth.
  double regret() const { return ratio.ratio - 1; }
};

struct Grid {
  std::vector<std::string> algorithms;  ///< with their arguments
  std::vector<GridColumn> columns;
  std::uint64_t wrong = 0;  ///< elements
};

/// Collective: for each size measures and verifies all candidates, including those that spare slow hosts.
/// Screening runs them alternately and drops candidates that are far behind; its times are lower quartiles.
/// The final compares kolo's choice with the fastest few in many short rounds; its times are midmeans of the
/// rounds' lower quartiles. Complete on rank 0, which writes a line for each time and each choice to `json`.
Grid measure_grid(const Settings& settings, const Communicator& communicator,
                  const std::vector<int>& slow_hosts, cli::JsonLines& json);

/// The grid as a human-readable table, algorithms in lines and sizes in columns; in blocks that fit a
/// terminal unless `wide`.
std::string grid_table(const Grid& grid, bool wide);

/// Stores the grid's times in the tuning table for this setting. An algorithm that was not in the final never
/// gets a better time than a finalist.
void learn(const Grid& grid, schedule::Collective collective, const selection::Setting& setting,
           selection::TuningTable& table);

}  // namespace kolo::bench
