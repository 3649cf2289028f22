// Grid: every algorithm at every size, and how good kolo's choice is.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "bench/compare.hpp"
#include "bench/settings.hpp"
#include "kolo/communicator.hpp"
#include "selection/table.hpp"

namespace kolo::bench {

/// One size: what each algorithm took, and what kolo would have chosen.
struct GridColumn {
  std::uint64_t bytes = 0;
  std::vector<double> us;      ///< by Grid::algorithms, as far as they were known by then; see measure_grid()
  std::vector<bool> in_final;  ///< likewise: measured again among the best; the choice always is
  std::size_t choice = 0;      ///< into Grid::algorithms
  std::size_t fastest = 0;     ///< likewise, of those in the final
  Ratio ratio;                 ///< of the choice's time to the fastest's

  /// By how much the choice is slower than the fastest: 0.1 is a tenth.
  double regret() const { return ratio.ratio - 1; }
};

struct Grid {
  std::vector<std::string> algorithms;  ///< with their arguments
  std::vector<GridColumn> columns;
  std::uint64_t wrong = 0;  ///< elements
};

/// Collective: measures all candidates, those that spare slow hosts too, for each size in turns, round by
/// round, so that a noisy moment of the machine hits all alike; those far behind after a round are given up.
/// Then a final: kolo's choice and the fastest few run many short rounds more, which alone decide. Times are
/// lower quartiles, of the final the midmean of its rounds' ones. Complete on rank 0, which prints the table
/// and writes the JSON lines. Results are verified as always.
Grid measure_grid(const Settings& settings, const Communicator& communicator,
                  const std::vector<int>& slow_hosts);

/// The grid as a table for people, algorithms in lines and sizes in columns.
std::string grid_table(const Grid& grid);

/// The grid's times become the table's for this setting; those of the final decide, whoever was not in it is
/// never faster.
void learn(const Grid& grid, Collective collective, const Setting& setting, TuningTable& table);

}  // namespace kolo::bench
