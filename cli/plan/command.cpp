// kolo plan: the algorithm that a call would run, and the predicted times of all candidates.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/config.hpp"
#include "catalog/request.hpp"
#include "commands.hpp"
#include "options.hpp"
#include "plan/quantities.hpp"
#include "plan/subcommands.hpp"
#include "schedule/checker.hpp"
#include "schedule/lengths.hpp"
#include "selection/chooser.hpp"
#include "text/columns.hpp"
#include "text/json_lines.hpp"
#include "text/refuse.hpp"
#include "text/size.hpp"
#include "transport/transport.hpp"

namespace kolo::plan {

void refuse_options_before(const CLI::App& plan, std::string_view name) {
  for (const CLI::Option* option : plan.get_options()) {
    if (option->count() == 0) continue;
    cli::refuse("{} stands before {}: its options follow it", option->get_name(), name);
  }
}

}  // namespace kolo::plan

namespace kolo::cli {
namespace {

constexpr int kMostPlannedRanks = 1024;

constexpr const char* kPlanExamples = R"(Examples:
  kolo plan all_reduce --ranks 8 --bytes 1M       eight ranks on one host
  kolo plan all_reduce --hosts 4,4 --bytes 64M    two hosts, four ranks on each
  kolo plan broadcast --ranks 16 --bytes 8K --json
  kolo plan step --bytes 1.2GB --compute 300ms --hosts 10 --rate 9.6gbit
  kolo plan training --model model.json --hosts 4 --rate 1gbit --memory 8GiB

">" marks what a call runs; KOLO_ALGORITHM counts. In a step a rank sends at
most one message and receives at most one. "sends" is of the busiest rank. Times
are "measured", medians by 'kolo tune', or "predicted", by playing the schedules
on a cost model; those measured come first. "shared memory" means that ranks of
one host load and store each other's data, without messages.)";

struct PlanRequest {
  std::string collective;
  std::string ranks;
  std::string bytes;
  std::string hosts;
  std::vector<std::string> names;
  std::string links{transport::fastest_transport(transport::Reach::host).name};
  std::string json;
  bool wide = false;
};

struct Line {
  selection::ScoredAlgorithm ranked;
  schedule::ScheduleTotals totals;
  bool is_chosen = false;  ///< a call would run it
};

/// Measured bandwidths between the hosts of these names. Without names: between all hosts of the table, if
/// their number matches.
void add_bandwidths(selection::Topology& topology, std::size_t hosts, const std::vector<std::string>& names) {
  if (!names.empty() && names.size() != hosts) {
    refuse("--names are {}, but there are {} hosts", names.size(), hosts);
  }
  topology.host_names = names.empty() ? topology.table.hosts() : names;
  if (topology.host_names.size() == hosts) {
    topology.bandwidth = selection::bandwidths_between(topology.host_names, topology.table);
    topology.ring = selection::ring_by_bandwidth(topology);
  }
  if (topology.bandwidth.empty() && !names.empty()) {
    refuse("the table does not know the bandwidth between all of --names");
  }
}

selection::LinkKinds links_of(const transport::TransportFactory& kind) {
  return {std::string(kind.name), kind.shares_memory, !kind.pulls};
}

selection::Topology situation_of(int ranks, std::vector<int> hosts, const PlanRequest& request) {
  selection::Topology topology;
  topology.size = ranks;
  const int count = hosts.empty() ? 1 : hosts.back() + 1;
  if (count > 1) topology.hosts = std::move(hosts);
  topology.links_inside = links_of(*transport::find_transport(request.links));
  topology.links_between = transport::fastest_transport(transport::Reach::network).name;
  if (topology.links_inside.never_ask) topology.model.memory = selection::typical_loopback();
  if (!selection::table_path().empty())
    topology.table = selection::read_table(selection::table_path()).value_or_throw();
  const auto known = topology.table.model(topology.setting());
  if (known) topology.set_model(*known);
  add_bandwidths(topology, static_cast<std::size_t>(count), request.names);
  topology.shares_memory = topology.may_share_memory();
  return topology;
}

/// All candidates, the fastest first, and the algorithm that a call would run.
struct Plan {
  std::vector<Line> lines;
  std::string chosen;
};

Plan make_plan(selection::Chooser& chooser, schedule::Collective collective, std::uint64_t bytes) {
  const schedule::CallKey key{.collective = collective};
  const algorithms::ConfiguredAlgorithm chosen =
      chooser.choose(key, bytes, config().algorithm).value_or_throw();
  Plan plan{{}, chosen.name()};
  for (selection::ScoredAlgorithm& ranked : chooser.ranking(key, bytes)) {
    Line& line = plan.lines.emplace_back();
    line.is_chosen = chooser.in_ring_order(ranked.configured) == chosen;
    line.ranked = std::move(ranked);
    if (line.ranked.in_shared_memory) continue;  // nothing is sent
    const algorithms::ScheduleSpec spec{collective,
                                        0,
                                        chooser.topology().size,
                                        0,
                                        line.ranked.configured.arguments,
                                        chooser.topology().hosts};
    const std::vector<schedule::Schedule> schedules =
        algorithms::generate_all(*line.ranked.configured.algorithm, spec);
    line.totals =
        schedule::count_totals(schedules, schedule::even_parts(bytes, schedule::part_count(schedules[0])));
  }
  return plan;
}

std::string json_of(const selection::Topology& topology, const PlanRequest& request, std::uint64_t bytes,
                    const Plan& plan) {
  nlohmann::json ranking = nlohmann::json::array();
  for (const Line& line : plan.lines) {
    ranking.push_back({{"algorithm", line.ranked.configured.name()},
                       {"steps", line.totals.steps},
                       {"messages", line.totals.messages},
                       {"max_bytes_sent", line.totals.max_sent},
                       {"max_bytes_received", line.totals.max_received},
                       {"seconds", line.ranked.seconds},
                       {"measured", line.ranked.measured},
                       {"native", line.ranked.in_shared_memory},
                       {"chosen", line.is_chosen}});
  }
  return nlohmann::json{{"collective", request.collective},
                        {"ranks", topology.size},
                        {"layout", topology.setting().layout},
                        {"links", topology.setting().links},
                        {"bytes", bytes},
                        {"chosen", plan.chosen},
                        {"ranking", ranking}}
      .dump();
}

/// The lines above the table.
std::string plan_heading(const selection::Topology& topology, const PlanRequest& request,
                         std::uint64_t bytes) {
  const selection::Setting setting = topology.setting();
  const std::string layout = topology.hosts.empty() ? "" : fmt::format(" on hosts of {}", setting.layout);
  std::string text = wrapped(
      fmt::format("{}{}, {} ranks{} over {}", request.collective,
                  bytes == 0 ? "" : " of " + format_size(bytes), topology.size, layout, setting.links),
      kTerminalWidth, "# ", "# ");
  text += topology.table.model(setting) ? "# costs: as kolo tune measured them\n"
                                        : "# costs: typical ones; kolo tune measures yours\n";
  if (topology.bandwidth.empty()) return text;
  std::vector<std::string> rates;
  const selection::HostLinks carried(topology.bandwidth);
  for (std::size_t host = 0; host < carried.out.size(); ++host)
    rates.push_back(fmt::format("{} {:.0f}", topology.host_names[host],
                                std::min(carried.out[host], carried.in[host]) * 8e-6));
  return text + wrapped(fmt::format("links as measured, in Mbit/s: {}", fmt::join(rates, ", ")),
                        kTerminalWidth, "# ", "#   ");
}

void print_table(const selection::Topology& topology, const PlanRequest& request, std::uint64_t bytes,
                 const Plan& plan) {
  constexpr std::size_t kLongestName = 38;
  double shortest = plan.lines.empty() ? 0 : plan.lines.front().ranked.seconds;
  for (const Line& line : plan.lines) shortest = std::min(shortest, line.ranked.seconds);
  const plan::TimeUnit unit = plan::unit_for(shortest);
  std::vector<Cells> rows;
  for (const Line& line : plan.lines) {
    const std::string name = line.ranked.configured.name();
    const bool sends = !line.ranked.in_shared_memory;
    rows.push_back(
        {(line.is_chosen ? "> " : "  ") + (request.wide ? name : shortened(name, kLongestName)),
         plan::format_time(line.ranked.seconds, unit), sends ? std::to_string(line.totals.steps) : "-",
         sends ? std::to_string(line.totals.messages) : "-", sends ? format_size(line.totals.max_sent) : "-",
         sends ? format_size(line.totals.max_received) : "-", line.ranked.measured ? "measured" : "predicted",
         sends ? "messages" : "shared memory"});
  }
  fmt::print("{}{}", plan_heading(topology, request, bytes),
             table({{"  algorithm", "", 0, true},
                    {"time", std::string(unit.name)},
                    {"steps"},
                    {"messages", "", 0, false, 3},
                    {"sends"},
                    {"gets", "", 0, false, 2},
                    {"", "", 0, true},
                    {"through", "", 0, true, 1}},
                   rows, table_width(request.wide)));
  if (std::ranges::any_of(plan.lines, [](const Line& line) { return line.ranked.in_shared_memory; }))
    fmt::print("# \"-\": in shared memory, without messages\n");
  if (std::ranges::none_of(plan.lines, &Line::is_chosen))
    fmt::print("# a call runs {}, as KOLO_ALGORITHM says\n", plan.chosen);
}

void run_plan(const PlanRequest& request) {
  if (request.collective.empty()) {
    refuse(
        "kolo plan needs a collective (all_reduce, broadcast, ...), step or training (kolo plan --help tells "
        "more)");
  }
  const schedule::Collective collective = algorithms::require_collective(request.collective).value_or_throw();
  if (collective == schedule::Collective::send_recv) refuse("send_recv has no algorithms to choose from");
  std::vector<int> hosts = parse_ranks_per_host(request.hosts);
  const std::vector<int> ranks = parse_ranks(request.ranks, hosts, kMostPlannedRanks, {8});
  const bool is_barrier = collective == schedule::Collective::barrier;
  if (is_barrier && !request.bytes.empty()) refuse("a barrier has no --bytes");
  const auto sizes =
      is_barrier ? std::vector<std::uint64_t>{0} : parse_sizes(request.bytes.empty() ? "1M" : request.bytes);
  if (sizes.size() != 1) refuse("--bytes takes one size");
  if (ranks.size() != 1) refuse("--ranks takes one number");
  selection::Chooser chooser(situation_of(ranks[0], std::move(hosts), request));
  const Plan plan = make_plan(chooser, collective, sizes[0]);
  JsonLines json(request.json);
  json.write(json_of(chooser.topology(), request, sizes[0], plan));
  if (!json.replaces_text()) print_table(chooser.topology(), request, sizes[0], plan);
}

}  // namespace

void add_plan(CLI::App& app) {
  const auto request = std::make_shared<PlanRequest>();
  CLI::App* plan = app.add_subcommand("plan", "Predict what a call or a training step will take");
  plan->footer(kPlanExamples);
  plan->add_option("COLLECTIVE", request->collective, "all_reduce, broadcast, ...");
  add_value(*plan, "-n,--ranks", request->ranks, "N", "How many ranks (default: those of --hosts, else 8)");
  add_value(*plan, "--bytes", request->bytes, "SIZE", "Size of the whole data: 64K, 1.5MiB (default: 1M)");
  add_value(*plan, "--hosts", request->hosts, "LIST",
            "How many ranks on each host: 4,4 (default: all on one)");
  add_value(*plan, "--names", request->names, "LIST",
            "The hosts as the tuning table names them (default: all of its hosts, if as many)")
      ->delimiter(',');
  add_value(*plan, "--links", request->links, "NAME", "The transport between ranks of one host")
      ->check(CLI::IsMember(transport::transport_names()));
  add_wide(*plan, request->wide);
  add_json(*plan, request->json, "one object");
  plan::add_step(*plan);
  plan::add_training(*plan);
  plan->callback([plan, request] {
    if (plan->get_subcommands().empty()) run_plan(*request);
  });
}

}  // namespace kolo::cli
