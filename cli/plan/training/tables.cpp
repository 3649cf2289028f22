#include "plan/training/tables.hpp"

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
  return (is_first && ranked.fits ? "  > " : ranked.fits ? "    " : "  - ") + name_of(ranked.way);
}

/// The fastest way that has stages: where its borders are.
std::string stages_line(const Job& job, const std::vector<RankedWay>& ranking) {
  const auto found =
      std::ranges::find_if(ranking, [](const RankedWay& ranked) { return ranked.way.stages > 1; });
  if (found == ranking.end()) return "";
  return fmt::format("# Stages of {}: {}\n", name_of(found->way),
                     fmt::join(stage_names(job, found->way), " | "));
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

std::string training_table(const Job& job, const std::vector<RankedWay>& ranking) {
  double shortest = ranking.front().time.step;
  for (const RankedWay& ranked : ranking) shortest = std::min(shortest, ranked.time.step);
  const TimeUnit unit = unit_for(shortest);
  std::string text =
      fmt::format("# A training step of {}: {}\n", job.profile.name, cluster_line(job.cluster));
  text += fmt::format("#   model    {}\n", model_line(job.profile));
  text += fmt::format("#   samples  {} a step, all ranks together, in all ways\n", job.samples);
  text += fmt::format("#   memory   {} for a parameter, its gradient and the optimizer's state{}\n",
                      format_bytes(2 * kBytesPerNumber + job.state_per_parameter),
                      job.memory ? "; " + format_bytes(*job.memory) + " a rank" : "");
  text += fmt::format("#\n# Times in {}\n", unit.name);
  std::vector<cli::Cells> lines{
      {"#   way", "micro-batches", "step", "computing", "waiting", "messages", "memory", "why"}};
  for (const RankedWay& ranked : ranking) {
    cli::Cells& line = lines.emplace_back(
        cli::Cells{marked(ranked, &ranked == &ranking.front()), fmt::format("{}", ranked.way.micro_batches)});
    for (const double seconds :
         {ranked.time.step, ranked.time.computing, ranked.time.waiting, ranked.time.communication})
      line.push_back(format_time(seconds, unit));
    line.push_back(format_bytes(ranked.memory.total()));
    line.push_back(ranked.reason);
  }
  return text + cli::in_columns(lines, 1, lines.front().size() - 1) + stages_line(job, ranking);
}

}  // namespace kolo::plan
