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
#include "bench/sizes.hpp"
#include "bench/table.hpp"
#include "catalog/request.hpp"
#include "commands.hpp"
#include "kolo/error.hpp"
#include "plan/subcommands.hpp"
#include "schedule/checker.hpp"
#include "schedule/lengths.hpp"
#include "selection/chooser.hpp"
#include "transport/transport.hpp"

namespace kolo::plan {

void refuse_options_before(const CLI::App& plan, std::string_view name) {
  for (const CLI::Option* option : plan.get_options()) {
    if (option->count() == 0) continue;
    throw InvalidArgument(fmt::format("{} stands before {}: its options follow it", option->get_name(), name),
                          {});
  }
}

}  // namespace kolo::plan

namespace kolo::cli {
namespace {

constexpr int kMostRanks = 1024;

constexpr const char* kPlanExamples = R"(Examples:
  kolo plan all_reduce --ranks 8 --bytes 1M                     eight ranks on one host
  kolo plan all_reduce --hosts 4,4 --bytes 64M                  two hosts with four ranks each
  kolo plan broadcast --ranks 16 --bytes 8K --json              for programs
  kolo plan step --bytes 1.2G --compute 300ms --hosts 10 --rate 9.6gbit
                                                                a training step: server, driver, ring
  kolo plan training --model model.json --hosts 4 --rate 1gbit --memory 8GiB
                                                                ways to train a model: time and memory

The line with ">" is what a call runs; KOLO_ALGORITHM counts. Steps: in each a rank sends at most one message
and receives at most one. The times are medians that 'kolo tune' has measured ("measured"), or come from
playing the schedules on a cost model ("predicted"). Where ranks share memory some algorithms run natively,
without messages; they come before all that were not measured, whose times do not compare with theirs.
)";

struct PlanRequest {
  std::string collective;
  std::string ranks;
  std::string bytes;
  std::string hosts;
  std::vector<std::string> names;
  std::string links{transport::fastest_transport(transport::Reach::host).name};
  bool json = false;
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
    throw InvalidArgument(fmt::format("--names are {}, but there are {} hosts", names.size(), hosts), {});
  }
  topology.host_names = names.empty() ? topology.table.hosts() : names;
  if (topology.host_names.size() == hosts) {
    topology.bandwidth = selection::bandwidths_between(topology.host_names, topology.table);
    topology.ring = selection::ring_by_bandwidth(topology);
  }
  if (topology.bandwidth.empty() && !names.empty()) {
    throw InvalidArgument("the table does not know the bandwidth between all of --names", {});
  }
}

selection::LinkKinds links_of(const transport::TransportFactory& kind) {
  return {std::string(kind.name), kind.shares_memory, kind.reach == transport::Reach::network};
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
  selection::Choice choice;
  choice.spec = {collective, 0, chooser.topology().size, 0, {}, chooser.topology().hosts};
  choice.bytes = bytes;
  choice.preferred = config().algorithm;
  const algorithms::ConfiguredAlgorithm chosen = chooser.choose(choice).value_or_throw();
  Plan plan{{}, chosen.name()};
  for (selection::ScoredAlgorithm& ranked : chooser.ranking(choice.spec, {}, bytes)) {
    Line& line = plan.lines.emplace_back();
    line.is_chosen = chooser.in_ring_order(ranked.configured) == chosen;
    line.ranked = std::move(ranked);
    if (line.ranked.in_shared_memory) continue;  // nothing is sent
    algorithms::ScheduleSpec spec = choice.spec;
    spec.arguments = line.ranked.configured.arguments;
    const std::vector<schedule::Schedule> schedules =
        algorithms::generate_all(*line.ranked.configured.algorithm, spec);
    line.totals =
        schedule::count_totals(schedules, schedule::even_parts(bytes, schedule::part_count(schedules[0])));
  }
  return plan;
}

void print_json(const selection::Topology& topology, const PlanRequest& request, std::uint64_t bytes,
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
  fmt::print("{}\n", nlohmann::json{{"collective", request.collective},
                                    {"ranks", topology.size},
                                    {"layout", topology.setting().layout},
                                    {"links", topology.setting().links},
                                    {"bytes", bytes},
                                    {"chosen", plan.chosen},
                                    {"ranking", ranking}}
                         .dump());
}

const char* origin(const selection::ScoredAlgorithm& ranked) {
  if (ranked.measured) return ranked.in_shared_memory ? "measured, natively" : "measured";
  return ranked.in_shared_memory ? "natively, in shared memory" : "predicted";
}

void print_table(const selection::Topology& topology, const PlanRequest& request, std::uint64_t bytes,
                 const Plan& plan) {
  const selection::Setting setting = topology.setting();
  const char* costs =
      topology.table.model(setting) ? "as kolo tune measured them" : "typical ones; kolo tune measures yours";
  fmt::print("# {} of {} among {} ranks ({}) over {}; costs: {}\n", request.collective,
             bench::format_size(bytes), topology.size, setting.layout, setting.links, costs);
  if (!topology.bandwidth.empty()) {
    fmt::print("# links as measured between {}; what they carry, in Mbit/s:",
               fmt::join(topology.host_names, ", "));
    const selection::HostLinks carried(topology.bandwidth);
    for (std::size_t host = 0; host < carried.out.size(); ++host) {
      fmt::print(" {:.0f}", std::min(carried.out[host], carried.in[host]) * 8e-6);
    }
    fmt::print("\n");
  }
  std::size_t width = 9;
  for (const Line& line : plan.lines) width = std::max(width, line.ranked.configured.name().size());
  fmt::print("#   {:<{}}{:>8}{:>10}{:>14}{:>14}{:>12}\n", "algorithm", width, "steps", "messages",
             "rank sends", "rank gets", "time");
  fmt::print("#   {:<{}}{:>8}{:>10}{:>14}{:>14}{:>12}\n", "", width, "", "", "bytes at most", "bytes at most",
             "us");
  for (const Line& line : plan.lines) {
    fmt::print("{} {:<{}}{:>8}{:>10}{:>14}{:>14}{:>12}  {}\n", line.is_chosen ? "  >" : "   ",
               line.ranked.configured.name(), width, line.totals.steps, line.totals.messages,
               line.totals.max_sent, line.totals.max_received, bench::format_us(line.ranked.seconds * 1e6),
               origin(line.ranked));
  }
  if (std::ranges::none_of(plan.lines, &Line::is_chosen))
    fmt::print("# a call runs {}, as KOLO_ALGORITHM says\n", plan.chosen);
}

int run_plan(const PlanRequest& request) {
  if (request.collective.empty()) {
    throw InvalidArgument(
        "kolo plan needs a collective (all_reduce, broadcast, ...), step or training (--help tells more)",
        {});
  }
  const schedule::Collective collective = algorithms::require_collective(request.collective).value_or_throw();
  if (collective == schedule::Collective::send_recv)
    throw InvalidArgument("send_recv has no algorithms to choose from", {});
  std::vector<int> hosts = parse_ranks_per_host(request.hosts);
  const std::vector<int> ranks = parse_ranks(request.ranks, hosts, kMostRanks, {8});
  const bool is_barrier = collective == schedule::Collective::barrier;
  if (is_barrier && !request.bytes.empty()) throw InvalidArgument("a barrier has no --bytes", {});
  const auto sizes = is_barrier ? std::vector<std::uint64_t>{0}
                                : bench::parse_sizes(request.bytes.empty() ? "1M" : request.bytes);
  if (sizes.size() != 1) throw InvalidArgument("--bytes takes one size", {});
  if (ranks.size() != 1) throw InvalidArgument("--ranks takes one number", {});
  selection::Chooser chooser(situation_of(ranks[0], std::move(hosts), request));
  const Plan plan = make_plan(chooser, collective, sizes[0]);
  if (request.json) {
    print_json(chooser.topology(), request, sizes[0], plan);
  } else {
    print_table(chooser.topology(), request, sizes[0], plan);
  }
  return 0;
}

}  // namespace

void add_plan(CLI::App& app) {
  const auto request = std::make_shared<PlanRequest>();
  CLI::App* plan = app.add_subcommand(
      "plan",
      "Rank the algorithms for a call: steps, bytes and time of each; time a step; rank ways to train");
  plan->footer(kPlanExamples);
  plan->add_option("collective", request->collective, "all_reduce, broadcast, ...")->type_name("");
  plan->add_option("-n,--ranks", request->ranks, "Ranks (default: those of --hosts, else 8)")->type_name("N");
  plan->add_option("--bytes", request->bytes, "Size of the whole data, with K, M, G (default: 1M)")
      ->type_name("SIZE");
  plan->add_option("--hosts", request->hosts, "Ranks on each host, as in 4,4 (default: all on one)")
      ->type_name("LIST");
  plan->add_option("--names", request->names,
                   "The hosts as the table names them (default: all of its hosts, if they are as many)")
      ->delimiter(',')
      ->type_name("LIST");
  plan->add_option("--links", request->links, "Between ranks of one host")
      ->capture_default_str()
      ->check(CLI::IsMember(transport::transport_names()))
      ->type_name("KIND");
  plan->add_flag("--json", request->json, "For programs");
  plan::add_step(*plan);
  plan::add_training(*plan);
  plan->callback([plan, request] {
    if (!plan->get_subcommands().empty()) return;
    if (const int code = run_plan(*request); code != 0) throw CLI::RuntimeError(code);
  });
}

}  // namespace kolo::cli
