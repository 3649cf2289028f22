#include "bench/grid.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>

#include "bench/contestants.hpp"
#include "bench/json_lines.hpp"
#include "bench/machine.hpp"
#include "bench/row.hpp"
#include "bench/sizes.hpp"
#include "bench/table.hpp"
#include "kolo/version.hpp"
#include "selection/candidates.hpp"
#include "selection/situation.hpp"

namespace kolo::bench {
namespace {

constexpr int kRounds = 5;
/// For one algorithm at one size, where nobody asks for a number of iterations.
constexpr double kSeconds = 0.1;
/// An algorithm so many times slower than the fastest of a round is not measured again.
constexpr double kFarBehind = 1.7;

class GridRunner {
 public:
  GridRunner(const Settings& settings, const Communicator& communicator)
      : settings_(settings),
        communicator_(communicator),
        kolo_(communicator, {}, settings.shared_memory),
        leads_(communicator.rank() == 0),
        json_(leads_ ? settings.json : "") {}

  Grid run() {
    ScheduleSpec spec;
    parse_collective(name_of(settings_.kind), spec.collective);
    spec.size = kolo_.size();
    spec.hosts = situation_of(communicator_).hosts;
    const bool one_buffer = settings_.kind == Kind::all_to_all && settings_.in_place;
    for (const Configured& candidate : candidates(spec, {.in_place = one_buffer})) {
      grid_.algorithms.push_back(candidate.name());
    }
    json_.write(machine_line(this_machine(), version()));
    for (const std::uint64_t bytes : settings_.sizes) measure_size(bytes);
    if (leads_ && settings_.progress) fmt::print(stderr, "\r\x1b[K");
    return grid_;
  }

 private:
  void measure_size(std::uint64_t bytes) {
    const Case what =
        make_case(settings_.kind, bytes, kolo_.size(), settings_.dtype, settings_.op, settings_.in_place);
    add_choice(what);
    const std::size_t count = grid_.algorithms.size();
    std::vector<std::vector<double>> times(count);
    std::vector<std::uint8_t> alive(count, 1);
    Policy policy = settings_.policy;
    if (policy.iterations > 0) {
      policy.iterations = std::max(1, policy.iterations / kRounds);
    } else {
      policy.min_seconds = kSeconds / kRounds;
      policy.min_iterations = 2;
      policy.warmup = 1;
    }
    for (int round = 0; round < kRounds; ++round) {
      for (std::size_t a = 0; a < count; ++a) {
        if (alive[a] == 0) continue;
        show(what, round, a);
        const Sample sample = measure(kolo_, what, grid_.algorithms[a], policy, iteration_);
        times[a].insert(times[a].end(), sample.times_us.begin(), sample.times_us.end());
        grid_.wrong += sample.wrong;
      }
      give_up(times, alive);
    }
    GridColumn column;
    column.bytes = what.bytes();
    column.choice = choice_;
    if (leads_) finish(what, std::move(column), times, alive);
  }

  /// What kolo would run, found by asking for it. It may be no candidate: a ring in another order, or what
  /// KOLO_ALGORITHM says.
  void add_choice(const Case& what) {
    std::uint64_t iteration = 0;
    Policy once;
    once.iterations = 1;
    once.warmup = 0;
    measure(kolo_, what, {}, once, iteration);
    const std::string chosen = kolo_.algorithm_used();
    const auto found = std::find(grid_.algorithms.begin(), grid_.algorithms.end(), chosen);
    choice_ = static_cast<std::size_t>(found - grid_.algorithms.begin());
    if (found == grid_.algorithms.end()) grid_.algorithms.push_back(chosen);
  }

  /// Rank 0 decides, because it alone has the times.
  void give_up(const std::vector<std::vector<double>>& times, std::vector<std::uint8_t>& alive) {
    if (leads_) {
      double fastest = 0;
      for (std::size_t a = 0; a < alive.size(); ++a) {
        const double median = summarize(times[a]).median;
        if (alive[a] != 0 && (fastest == 0 || median < fastest)) fastest = median;
      }
      for (std::size_t a = 0; a < alive.size(); ++a) {
        if (summarize(times[a]).median > kFarBehind * fastest) alive[a] = 0;
      }
    }
    kolo_.share(alive.data(), alive.size());
  }

  void finish(const Case& what, GridColumn column, const std::vector<std::vector<double>>& times,
              const std::vector<std::uint8_t>& alive) {
    for (std::size_t a = 0; a < times.size(); ++a) {
      column.median_us.push_back(summarize(times[a]).median);
      if (alive[a] != 0 &&
          (alive[column.fastest] == 0 || column.median_us[a] < column.median_us[column.fastest])) {
        column.fastest = a;
      }
      json_.write(
          row_line(make_row("kolo", kolo_.transports(), settings_.shared_memory ? "shared" : "private", what,
                            {grid_.algorithms[a], times[a], 0})));
    }
    grid_.columns.push_back(std::move(column));
  }

  void show(const Case& what, int round, std::size_t algorithm) const {
    if (!leads_ || !settings_.progress) return;
    fmt::print(stderr, "\r\x1b[K  {}: round {} of {}, {} ...", format_size(what.bytes()), round + 1, kRounds,
               grid_.algorithms[algorithm]);
    std::fflush(stderr);
  }

  const Settings& settings_;
  const Communicator& communicator_;
  KoloContestant kolo_;
  bool leads_;
  JsonLines json_;
  Grid grid_;
  std::size_t choice_ = 0;
  std::uint64_t iteration_ = 0;
};

}  // namespace

Grid measure_grid(const Settings& settings, const Communicator& communicator) {
  return GridRunner(settings, communicator).run();
}

std::string grid_table(const Grid& grid) {
  std::size_t width = 9;
  for (const std::string& name : grid.algorithms) width = std::max(width, name.size());
  std::string text = fmt::format("# {:<{}}", "time in us", width);
  for (const GridColumn& column : grid.columns) text += fmt::format("{:>10}", format_size(column.bytes));
  text += "\n";
  for (std::size_t a = 0; a < grid.algorithms.size(); ++a) {
    text += fmt::format("  {:<{}}", grid.algorithms[a], width);
    for (const GridColumn& column : grid.columns) {
      const char* mark = a == column.fastest && a == column.choice ? "*>" : a == column.fastest ? "*" : "";
      if (a == column.choice && a != column.fastest) mark = ">";
      const bool is_there = a < column.median_us.size();
      text += fmt::format("{:>10}", is_there ? mark + format_us(column.median_us[a]) : "-");
    }
    text += "\n";
  }
  text += fmt::format("# {:<{}}", "regret", width);
  for (const GridColumn& column : grid.columns) text += fmt::format("{:>9.0f}%", 100 * column.regret());
  text += "\n# * fastest, > kolo's choice; regret: by how much the choice is slower than the fastest\n";
  return text;
}

void learn(const Grid& grid, Collective collective, const Setting& setting, TuningTable& table) {
  table.forget(setting, collective);
  for (const GridColumn& column : grid.columns) {
    for (std::size_t a = 0; a < column.median_us.size(); ++a) {
      table.set_time(setting, collective, column.bytes, grid.algorithms[a], column.median_us[a] * 1e-6);
    }
  }
}

}  // namespace kolo::bench
