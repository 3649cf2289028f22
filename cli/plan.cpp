// kolo plan: which algorithm a call would run, and what the others would take.
#include <sched.h>

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "bench/sizes.hpp"
#include "bench/table.hpp"
#include "commands.hpp"
#include "kolo/error.hpp"
#include "schedule/checker.hpp"
#include "schedule/lengths.hpp"
#include "selection/chooser.hpp"

namespace kolo::cli {
namespace {

constexpr const char* kExamples = R"(Examples:
  kolo plan all_reduce --ranks 8 --bytes 1M                     eight ranks on one host
  kolo plan all_reduce --hosts 4,4 --bytes 64M                  two hosts with four ranks each
  kolo plan broadcast --ranks 16 --bytes 8K --links tcp --json

Steps: in each a rank sends at most one message and receives at most one. The times are medians that 'kolo
tune' has measured ("measured"), or come from playing the schedules on a cost model ("predicted").
)";

struct PlanRequest {
  std::string collective;
  int ranks = 0;
  std::string bytes = "1M";
  std::vector<int> ranks_on;  // each host
  std::string links;
  bool json = false;
};

struct Line {
  Ranked ranked;
  ScheduleTotals totals;
};

Situation situation_of(const PlanRequest& request) {
  Situation situation;
  situation.size = request.ranks;
  for (std::size_t host = 0; request.ranks_on.size() > 1 && host < request.ranks_on.size(); ++host) {
    situation.hosts.insert(situation.hosts.end(), static_cast<std::size_t>(request.ranks_on[host]),
                           static_cast<int>(host));
  }
  const bool shares = request.ranks_on.size() < 2 ||
                      std::ranges::any_of(request.ranks_on, [](int ranks) { return ranks > 1; });
  situation.links = request.links;
  if (situation.links.empty()) situation.links = situation.hosts.empty() ? "shm" : shares ? "shm+tcp" : "tcp";
  if (!table_path().empty()) situation.table = read_table(table_path()).value_or_throw();
  const auto known = situation.table.model(situation.setting());
  if (known) situation.model = *known;
  return situation;
}

/// All candidates, the fastest first, with what their schedules add up to.
std::vector<Line> lines_of(const Chooser& chooser, Collective collective, std::uint64_t bytes) {
  ScheduleSpec spec{collective, 0, chooser.situation().size, 0, {}, chooser.situation().hosts};
  std::vector<Line> lines;
  for (Ranked& ranked : chooser.ranking(spec, {}, bytes)) {
    spec.arguments = ranked.configured.arguments;
    std::vector<Schedule> schedules;
    for (spec.rank = 0; spec.rank < spec.size; ++spec.rank) {
      schedules.push_back(ranked.configured.algorithm->generate(spec));
    }
    const std::uint32_t parts = part_count(schedules[0]);
    std::vector<std::uint64_t> part_bytes(parts, parts == 0 ? 0 : bytes / parts);
    for (std::uint64_t i = 0; parts > 0 && i < bytes % parts; ++i) ++part_bytes[i];
    lines.push_back({std::move(ranked), count_totals(schedules, part_bytes)});
  }
  return lines;
}

void print_json(const PlanRequest& request, std::uint64_t bytes, const std::vector<Line>& lines) {
  nlohmann::json ranking = nlohmann::json::array();
  for (const Line& line : lines) {
    ranking.push_back({{"algorithm", line.ranked.configured.name()},
                       {"steps", line.totals.steps},
                       {"messages", line.totals.messages},
                       {"max_bytes_sent", line.totals.max_sent},
                       {"max_bytes_received", line.totals.max_received},
                       {"seconds", line.ranked.seconds},
                       {"measured", line.ranked.measured}});
  }
  fmt::print("{}\n", nlohmann::json{{"collective", request.collective},
                                    {"ranks", request.ranks},
                                    {"bytes", bytes},
                                    {"ranking", ranking}}
                         .dump());
}

void print_table(const Situation& situation, const PlanRequest& request, std::uint64_t bytes,
                 const std::vector<Line>& lines) {
  const Setting setting = situation.setting();
  const char* costs = situation.table.model(setting) ? "as kolo tune measured them"
                                                     : "typical ones; kolo tune measures yours";
  fmt::print("# {} of {} among {} ranks ({}) over {}; costs: {}\n", request.collective,
             bench::format_size(bytes), situation.size, setting.layout, situation.links, costs);
  std::size_t width = 9;
  for (const Line& line : lines) width = std::max(width, line.ranked.configured.name().size());
  fmt::print("#   {:<{}}{:>8}{:>10}{:>14}{:>14}{:>12}\n", "algorithm", width, "steps", "messages",
             "rank sends", "rank gets", "time");
  fmt::print("#   {:<{}}{:>8}{:>10}{:>14}{:>14}{:>12}\n", "", width, "", "", "bytes at most", "bytes at most",
             "us");
  for (const Line& line : lines) {
    fmt::print("{} {:<{}}{:>8}{:>10}{:>14}{:>14}{:>12}  {}\n", &line == lines.data() ? "  >" : "   ",
               line.ranked.configured.name(), width, line.totals.steps, line.totals.messages,
               line.totals.max_sent, line.totals.max_received, bench::format_us(line.ranked.seconds * 1e6),
               line.ranked.measured ? "measured" : "predicted");
  }
}

int run_plan(PlanRequest request) {
  Collective collective;
  if (!parse_collective(request.collective, collective) || collective == Collective::send_recv) {
    throw InvalidArgument("'" + request.collective +
                              "' is not a collective with algorithms; there are all_reduce, reduce_scatter, "
                              "all_gather, broadcast, reduce, scatter, gather, all_to_all, barrier",
                          {});
  }
  int on_hosts = 0;
  for (const int ranks : request.ranks_on) on_hosts += ranks;
  if (request.ranks == 0) request.ranks = on_hosts > 0 ? on_hosts : 8;
  if (on_hosts > 0 && on_hosts != request.ranks) {
    throw InvalidArgument(fmt::format("--hosts hold {} ranks, but --ranks says {}", on_hosts, request.ranks),
                          {});
  }
  std::string error;
  const auto sizes = collective == Collective::barrier ? std::vector<std::uint64_t>{0}
                                                       : bench::parse_sizes(request.bytes, error);
  if (sizes.size() != 1) throw InvalidArgument(error.empty() ? "--bytes takes one size" : error, {});
  const Chooser chooser(situation_of(request));
  const auto lines = lines_of(chooser, collective, sizes[0]);
  if (request.json) {
    print_json(request, sizes[0], lines);
  } else {
    print_table(chooser.situation(), request, sizes[0], lines);
  }
  return 0;
}

}  // namespace

void add_plan(CLI::App& app) {
  const auto request = std::make_shared<PlanRequest>();
  CLI::App* plan =
      app.add_subcommand("plan", "Rank the algorithms for a call: steps, bytes and time of each");
  plan->footer(kExamples);
  plan->add_option("collective", request->collective, "all_reduce, broadcast, ...")
      ->required()
      ->type_name("");
  plan->add_option("-n,--ranks", request->ranks, "Ranks (default: those of --hosts, else 8)")
      ->check(CLI::PositiveNumber)
      ->type_name("N");
  plan->add_option("--bytes", request->bytes, "Size of the whole data, with K, M, G")
      ->capture_default_str()
      ->type_name("SIZE");
  plan->add_option("--hosts", request->ranks_on, "Ranks on each host, as in 4,4 (default: all on one)")
      ->delimiter(',')
      ->check(CLI::PositiveNumber)
      ->type_name("LIST");
  plan->add_option("--links", request->links,
                   "shm, tcp, shm+tcp: what kolo tune measured (default: by --hosts)")
      ->type_name("KINDS");
  plan->add_flag("--json", request->json, "For programs");
  plan->callback([request] {
    if (const int code = run_plan(*request); code != 0) throw CLI::RuntimeError(code);
  });
}

}  // namespace kolo::cli
