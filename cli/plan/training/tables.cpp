#include "plan/training/ranking.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdint>

#include "plan/quantities.hpp"
#include "text/columns.hpp"

namespace kolo::plan {
namespace {

std::string cluster_line(const Cluster& cluster) {
  if (cluster.hosts == 1) return fmt::format("{} ranks on one host", cluster.ranks());
  return fmt::format("{} ranks, {} on each of {} hosts; links of {} of payload each way", cluster.ranks(),
                     cluster.ranks_per_host, cluster.hosts, format_bits(cluster.bytes_per_second));
}

std::string model_line(const ModelProfile& profile) {
  std::uint64_t parameters = 0;
  double seconds = 0;
  for (const ProfiledLayer& layer : profile.layers) {
    parameters += layer.parameters;
    seconds += layer.forward + layer.backward;
  }
  return fmt::format("{} layers, {} parameters, {} forward and backward of {} samples", profile.layers.size(),
                     with_separators(parameters), format_duration(seconds), profile.batch);
}

std::string marked(const RankedWay& ranked, bool is_first) {
  return (is_first && ranked.fits ? "> " : ranked.fits ? "  " : "- ") + name_of(ranked.way);
}

/// The fastest way that has stages: where its borders are.
std::string stages_line(const Job& job, const std::vector<RankedWay>& ranking, std::size_t width) {
  const auto found =
      std::ranges::find_if(ranking, [](const RankedWay& ranked) { return ranked.way.stages > 1; });
  if (found == ranking.end()) return "";
  return cli::wrapped(
      fmt::format("Stages of {}: {}", name_of(found->way), fmt::join(stage_names(job, found->way), " | ")),
      width, "# ", "#   ");
}

cli::Cells cells_of(const RankedWay& ranked, bool is_first, const TimeUnit& unit) {
  cli::Cells cells{marked(ranked, is_first), fmt::format("{}", ranked.way.micro_batches)};
  for (const double seconds :
       {ranked.time.step, ranked.time.computing, ranked.time.waiting, ranked.time.communication})
    cells.push_back(format_time(seconds, unit));
  cells.push_back(format_bytes(ranked.memory.total()));
  return cells;
}

std::string ways_table(const std::vector<RankedWay>& ranking, const TimeUnit& unit, std::size_t width) {
  std::vector<cli::Column> columns{{"  way", "", 0, true},
                                   {"micro-", "batches", 0, false, 2},
                                   {"step"},
                                   {"computing", "", 0, false, 1},
                                   {"waiting"},
                                   {"messages"},
                                   {"memory"}};
  std::vector<cli::Cells> rows;
  for (const RankedWay& ranked : ranking) rows.push_back(cells_of(ranked, &ranked == &ranking.front(), unit));
  if (width != cli::kAnyWidth) {
    const cli::TableLayout layout(cli::with_widths(std::move(columns), rows), width);
    std::string text = layout.heading();
    for (std::size_t i = 0; i < rows.size(); ++i)
      text += layout.row(rows[i]) + cli::wrapped(ranking[i].reason, width, "      ", "      ");
    return text;
  }
  columns.push_back({"why", "", 0, true});
  for (std::size_t i = 0; i < rows.size(); ++i) rows[i].push_back(ranking[i].reason);
  return cli::table(std::move(columns), rows, width);
}

}  // namespace

std::vector<std::string> stage_names(const Job& job, const Way& way) {
  const std::vector<ProfiledLayer>& layers = job.profile.layers;
  std::vector<std::string> names;
  for (int stage = 0; stage < way.stages; ++stage) {
    const std::string& first = layers[way.begin_of(stage)].name;
    const std::string& last = layers[way.end_of(stage, layers.size()) - 1].name;
    names.push_back(way.begin_of(stage) + 1 == way.end_of(stage, layers.size()) ? first
                                                                                : first + ".." + last);
  }
  return names;
}

std::string training_table(const Job& job, const std::vector<RankedWay>& ranking, std::size_t width) {
  double shortest = ranking.front().time.step;
  for (const RankedWay& ranked : ranking) shortest = std::min(shortest, ranked.time.step);
  const TimeUnit unit = unit_for(shortest);
  std::string text =
      cli::wrapped(fmt::format("A training step of {}: {}", job.profile.name, cluster_line(job.cluster)),
                   width, "# ", "# ");
  const auto fact = [&](std::string_view name, const std::string& what) {
    text += cli::wrapped(what, width, fmt::format("#   {:<9}", name), "#            ");
  };
  fact("model", model_line(job.profile));
  fact("samples", fmt::format("{} a step, all ranks together, in all ways", job.samples));
  fact("memory", fmt::format("{} for a parameter, its gradient and the optimizer's state{}",
                             format_bytes(2 * kBytesPerNumber + job.state_per_parameter),
                             job.memory ? "; " + format_bytes(*job.memory) + " a rank" : ""));
  text += fmt::format("#\n# Times in {}\n", unit.name);
  return text + ways_table(ranking, unit, width) + stages_line(job, ranking, width);
}

}  // namespace kolo::plan
