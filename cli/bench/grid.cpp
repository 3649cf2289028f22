#include "bench/grid.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <limits>
#include <numeric>
#include <random>
#include <utility>

#include "base/cores.hpp"
#include "bench/contestants.hpp"
#include "bench/progress.hpp"
#include "bench/row.hpp"
#include "bench/table.hpp"
#include "selection/candidates.hpp"
#include "selection/topology.hpp"
#include "text/columns.hpp"
#include "text/size.hpp"

namespace kolo::bench {
namespace {

/// Screening: rounds over all candidates, and seconds for each candidate if no number of iterations is given.
constexpr int kHeats = 3;
constexpr double kHeatSeconds = 0.06;
/// Factor to the fastest algorithm from which one is dropped; large, because one time may be lucky.
constexpr double kFarBehind = 3;

/// The final: this number of the fastest candidates, and kolo's choice. It has many rounds, because the
/// minimum of twenty noisy times is mostly luck.
constexpr std::size_t kFinalists = 6;
constexpr int kLeastRounds = 7;
constexpr int kMostRounds = 41;
constexpr double kFinalSeconds = 15;  ///< no further round starts after this time
constexpr double kTurnSeconds = 0.01;
constexpr int kMostCalls = 50;  ///< calls of one finalist in one round
/// Calls longer than this many seconds have no warm-up.
constexpr double kLongCall = 0.05;

/// Of the table.
constexpr std::size_t kSizeWidth = 11;
constexpr std::size_t kMostNameWidth = 28;

using Times = std::vector<double>;

/// The time of an undisturbed call: the lower quartile, because other programs add time to some calls.
double undisturbed(Times times) {
  if (times.empty()) return 0;
  const auto quartile = times.begin() + static_cast<std::ptrdiff_t>((times.size() - 1) / 4);
  std::ranges::nth_element(times, quartile);
  return *quartile;
}

/// Corrects for rounds in which the machine was slow: scales all times of a round so that all rounds have the
/// same median. `rounds` holds the times of each algorithm; an algorithm that was not in the final has none.
void level_out(std::vector<Times>& rounds) {
  std::size_t count = 0;
  for (const Times& times : rounds) count = std::max(count, times.size());
  Times levels;
  for (std::size_t r = 0; r < count; ++r) {
    Times of_round;
    for (const Times& times : rounds) {
      if (!times.empty()) of_round.push_back(times[r]);
    }
    levels.push_back(summarize(of_round).median);
  }
  const double usual = summarize(levels).median;
  for (Times& times : rounds) {
    for (std::size_t r = 0; r < times.size(); ++r) times[r] *= usual / levels[r];
  }
}

class GridRunner {
 public:
  GridRunner(const Settings& settings, const Communicator& communicator, const std::vector<int>& slow_hosts,
             cli::JsonLines& json)
      : settings_(settings),
        communicator_(communicator),
        slow_hosts_(slow_hosts),
        kolo_(communicator, {}, settings.shared_memory),
        leads_(communicator.rank() == 0),
        json_(json),
        progress_(leads_ && settings.progress, Part::parse(settings.part)) {}

  Grid run() {
    algorithms::ScheduleSpec spec;
    spec.collective = settings_.kind;
    spec.size = kolo_.size();
    spec.hosts = situation_of(communicator_).hosts;
    const bool one_buffer = settings_.kind == Kind::all_to_all && settings_.in_place;
    for (const algorithms::ConfiguredAlgorithm& candidate :
         selection::candidates(spec, {.in_place = one_buffer}, slow_hosts_)) {
      grid_.algorithms.push_back(candidate.name());
    }
    for (const std::uint64_t bytes : settings_.sizes) measure_size(bytes);
    progress_.clear();
    return grid_;
  }

 private:
  void measure_size(std::uint64_t bytes) {
    const Case what =
        make_case(settings_.kind, bytes, kolo_.size(), settings_.dtype, settings_.op, settings_.in_place);
    wrong_.assign(grid_.algorithms.size(), 0);
    const bool is_long = add_choice(what) > kLongCall * 1e6;
    std::vector<Times> times(grid_.algorithms.size());
    const std::vector<std::uint8_t> finalists = run_heats(what, is_long, times);
    const std::vector<Times> rounds = run_final(what, is_long, finalists, times);
    if (leads_) finish(what, finalists, times, rounds);
  }

  /// Appends the measured times to `times`; returns which algorithms are in the final.
  std::vector<std::uint8_t> run_heats(const Case& what, bool is_long, std::vector<Times>& times) {
    std::vector<std::uint8_t> alive(times.size(), 1);
    Policy policy = settings_.policy;
    if (policy.iterations > 0) {
      policy.iterations = std::max(1, policy.iterations / kHeats);
    } else if (is_long) {
      policy.iterations = 1;
      policy.warmup = 0;
    } else {
      policy.min_seconds = kHeatSeconds / kHeats;
      policy.min_iterations = 1;
      policy.warmup = 1;
    }
    for (int heat = 0; heat < kHeats; ++heat) {
      for (std::size_t a = 0; a < alive.size(); ++a) {
        if (alive[a] == 0) continue;
        show(what, fmt::format("heat {} of {}", heat + 1, kHeats), a);
        take_core_of(heat);
        const Sample sample = measure(kolo_, what, grid_.algorithms[a], policy, iteration_);
        times[a].insert(times[a].end(), sample.times_us.begin(), sample.times_us.end());
        wrong_[a] += sample.wrong;
      }
      if (leads_) give_up(times, alive);
      kolo_.share(alive.data(), alive.size());
    }
    if (leads_) {
      limit_finalists(times, alive);
      alive[choice_] = 1;
    }
    kolo_.share(alive.data(), alive.size());
    return alive;
  }

  /// Returns each finalist's time in each round, on rank 0. Replaces the finalists' `times`.
  std::vector<Times> run_final(const Case& what, bool is_long, const std::vector<std::uint8_t>& finalists,
                               std::vector<Times>& times) {
    std::vector<std::size_t> turns;
    for (std::size_t a = 0; a < finalists.size(); ++a) {
      if (finalists[a] != 0) turns.push_back(a);
    }
    Policy policy;
    policy.warmup = is_long ? 0 : 1;
    policy.iterations = settings_.policy.iterations / kHeats;
    if (leads_) {
      if (settings_.policy.iterations == 0) policy.iterations = calls_of(fastest_of(times, finalists));
      policy.iterations = std::max(policy.iterations, 1);
      for (const std::size_t a : turns) times[a].clear();
    }
    kolo_.share(&policy.iterations, sizeof(policy.iterations));
    std::vector<Times> rounds(finalists.size());
    const auto begin = std::chrono::steady_clock::now();
    for (int round = 0, more = 1; more != 0; ++round) {
      for (const std::size_t a : turns) {
        show(what, fmt::format("final, round {}", round + 1), a);
        take_core_of(round);
        const Sample sample = measure(kolo_, what, grid_.algorithms[a], policy, iteration_);
        wrong_[a] += sample.wrong;
        if (!leads_) continue;
        rounds[a].push_back(undisturbed(sample.times_us));
        times[a].insert(times[a].end(), sample.times_us.begin(), sample.times_us.end());
      }
      std::ranges::reverse(turns);  // so no algorithm always runs after the same one
      const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - begin;
      more = round + 1 < kLeastRounds || (round + 1 < kMostRounds && spent.count() < kFinalSeconds) ? 1 : 0;
      kolo_.share(&more, sizeof(more));
    }
    level_out(rounds);
    return rounds;
  }

  /// Assigns cores anew in each round, evenly on each host and alike for all algorithms. Otherwise a job
  /// would measure one placement, which the system keeps for long, and another job another one.
  void take_core_of(int round) const {
    std::vector<std::size_t> order(static_cast<std::size_t>(communicator_.size()));
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::ranges::shuffle(order, std::mt19937(static_cast<std::uint32_t>(round)));
    const std::vector<int>& hosts = situation_of(communicator_).hosts;
    const auto me = static_cast<std::size_t>(communicator_.rank());
    const auto before_me =
        std::ranges::count_if(order.begin(), std::ranges::find(order, me),
                              [&](std::size_t rank) { return hosts.empty() || hosts[rank] == hosts[me]; });
    move_to_core(static_cast<unsigned>(before_me));
  }

  /// Runs kolo's choice once and adds it to the algorithms. It may be no candidate: a ring in another order,
  /// or the one named by KOLO_ALGORITHM. Returns its microseconds, on all ranks.
  double add_choice(const Case& what) {
    std::uint64_t iteration = 0;
    Policy once;
    once.iterations = 1;
    once.warmup = 0;
    const Sample sample = measure(kolo_, what, {}, once, iteration);
    double us = leads_ ? sample.times_us[0] : 0;
    kolo_.share(&us, sizeof(us));
    const std::string chosen = kolo_.algorithm_used();
    const auto found = std::find(grid_.algorithms.begin(), grid_.algorithms.end(), chosen);
    choice_ = static_cast<std::size_t>(found - grid_.algorithms.begin());
    if (found == grid_.algorithms.end()) grid_.algorithms.push_back(chosen);
    wrong_.resize(grid_.algorithms.size(), 0);
    wrong_[choice_] += sample.wrong;
    return us;
  }

  /// Number of calls of one algorithm in one round of the final, from the time of a call.
  static int calls_of(double microseconds) {
    return static_cast<int>(std::min<double>(kTurnSeconds * 1e6 / microseconds, kMostCalls));
  }

  static double fastest_of(const std::vector<Times>& times, const std::vector<std::uint8_t>& alive) {
    double fastest = std::numeric_limits<double>::infinity();
    for (std::size_t a = 0; a < alive.size(); ++a) {
      if (alive[a] != 0) fastest = std::min(fastest, undisturbed(times[a]));
    }
    return fastest;
  }

  /// Runs on rank 0, which alone has the times.
  static void give_up(const std::vector<Times>& times, std::vector<std::uint8_t>& alive) {
    const double fastest = fastest_of(times, alive);
    for (std::size_t a = 0; a < alive.size(); ++a) {
      if (undisturbed(times[a]) > kFarBehind * fastest) alive[a] = 0;
    }
  }

  static void limit_finalists(const std::vector<Times>& times, std::vector<std::uint8_t>& alive) {
    std::vector<std::pair<double, std::size_t>> order;
    for (std::size_t a = 0; a < alive.size(); ++a) {
      if (alive[a] != 0) order.emplace_back(undisturbed(times[a]), a);
    }
    std::ranges::sort(order);
    for (std::size_t i = kFinalists; i < order.size(); ++i) alive[order[i].second] = 0;
  }

  void finish(const Case& what, const std::vector<std::uint8_t>& finalists, const std::vector<Times>& times,
              const std::vector<Times>& rounds) {
    GridColumn column;
    column.bytes = what.bytes();
    column.choice = column.fastest = choice_;
    column.in_final.assign(finalists.begin(), finalists.end());
    for (std::size_t a = 0; a < times.size(); ++a) {
      column.us.push_back(finalists[a] != 0 ? midmean(rounds[a]) : undisturbed(times[a]));
      json_.write(row_line(make_row("kolo", kolo_.transports(), settings_.memory_name(), what,
                                    {grid_.algorithms[a], times[a], wrong_[a]})));
      grid_.wrong += wrong_[a];
    }
    for (std::size_t a = 0; a < times.size(); ++a) {
      if (finalists[a] != 0 && column.us[a] < column.us[column.fastest]) column.fastest = a;
    }
    column.ratio = compare(rounds[choice_], rounds[column.fastest]);
    json_.write(
        choice_line(what, grid_.algorithms[column.choice], grid_.algorithms[column.fastest], column.ratio));
    grid_.columns.push_back(std::move(column));
  }

  void show(const Case& what, const std::string& stage, std::size_t algorithm) {
    progress_.show(
        fmt::format("{}: {}, {}", cli::format_size(what.bytes()), stage, grid_.algorithms[algorithm]),
        static_cast<double>(grid_.columns.size()) / static_cast<double>(settings_.sizes.size()));
  }

  const Settings& settings_;
  const Communicator& communicator_;
  const std::vector<int>& slow_hosts_;
  KoloContestant kolo_;
  bool leads_;
  cli::JsonLines& json_;
  Progress progress_;
  Grid grid_;
  std::size_t choice_ = 0;
  std::vector<std::uint64_t> wrong_;  // wrong elements of each algorithm at this size
  std::uint64_t iteration_ = 0;
};

}  // namespace

Grid measure_grid(const Settings& settings, const Communicator& communicator,
                  const std::vector<int>& slow_hosts, cli::JsonLines& json) {
  return GridRunner(settings, communicator, slow_hosts, json).run();
}

namespace {

std::string range_text(const GridColumn& column) {
  if (column.choice == column.fastest) return "-";
  return fmt::format("{:.0f}..{:.0f}%", 100 * (column.ratio.low - 1), 100 * (column.ratio.high - 1));
}

/// The columns [begin, end) of the grid.
std::string block_of(const Grid& grid, std::size_t name_width, std::size_t begin, std::size_t end) {
  std::vector<cli::Column> columns{{"us", "", name_width + 2, true}};
  cli::Cells regret{"regret"}, range{"with 95 %"};
  for (std::size_t c = begin; c < end; ++c) {
    columns.push_back({cli::format_size(grid.columns[c].bytes), "", kSizeWidth});
    regret.push_back(fmt::format("{:.0f}%", 100 * grid.columns[c].regret()));
    range.push_back(range_text(grid.columns[c]));
  }
  const cli::TableLayout layout(columns, cli::kAnyWidth);
  std::string text = layout.heading();
  for (std::size_t a = 0; a < grid.algorithms.size(); ++a) {
    cli::Cells cells{cli::shortened(grid.algorithms[a], name_width)};
    for (std::size_t c = begin; c < end; ++c) {
      const GridColumn& column = grid.columns[c];
      const char* mark = a == column.fastest && a == column.choice ? "*>" : a == column.fastest ? "*" : "";
      if (a == column.choice && a != column.fastest) mark = ">";
      cells.push_back(a < column.us.size() ? mark + format_us(column.us[a]) : "-");
    }
    text += layout.row(cells);
  }
  for (const cli::Cells* summary : {&regret, &range}) text += "#" + layout.row(*summary).substr(1);
  return text;
}

}  // namespace

std::string grid_table(const Grid& grid, bool wide) {
  std::size_t width = 9;
  for (const std::string& name : grid.algorithms) width = std::max(width, name.size());
  if (!wide) width = std::min(width, kMostNameWidth);
  const std::size_t in_a_block = wide ? grid.columns.size() : (cli::kTerminalWidth - width - 2) / kSizeWidth;
  std::string text;
  for (std::size_t begin = 0; begin < grid.columns.size(); begin += in_a_block)
    text += block_of(grid, width, begin, std::min(begin + in_a_block, grid.columns.size()));
  return text +
         "# * the fastest of the final, > kolo's choice; regret: by how much the choice is\n"
         "# slower than the fastest over the final's rounds; below, where that lies with\n"
         "# 95 %\n";
}

void learn(const Grid& grid, schedule::Collective collective, const selection::Setting& setting,
           selection::TuningTable& table) {
  table.forget(setting, collective);
  for (const GridColumn& column : grid.columns) {
    // An algorithm dropped in screening never gets a better time in the table than a finalist, even if the
    // final ran while the machine was slow.
    double slowest = 0;
    for (std::size_t a = 0; a < column.us.size(); ++a) {
      if (column.in_final[a] && a != column.choice) slowest = std::max(slowest, column.us[a]);
    }
    for (std::size_t a = 0; a < column.us.size(); ++a) {
      const double us = column.us[a];
      const double known = column.in_final[a] ? us : std::max(us, slowest);
      table.set_time(setting, collective, column.bytes, grid.algorithms[a], known * 1e-6);
    }
  }
}

}  // namespace kolo::bench
