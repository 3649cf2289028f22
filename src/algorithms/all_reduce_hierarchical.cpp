// all_reduce / hierarchical: sums inside each host, then an all_reduce among the first ranks of the hosts,
// then the result inside each host.
#include <algorithm>
#include <array>
#include <map>
#include <numeric>
#include <string>
#include <string_view>
#include <vector>

#include "algorithms/compose.hpp"
#include "algorithms/pipeline.hpp"
#include "algorithms/registered.hpp"

namespace kolo::algorithms {
namespace {

constexpr std::array<Parameter, 2> kHierarchicalParameters = {
    {{"inside", "the reduce and the broadcast inside each host, as in chain+chunks=8; else binomial",
      ParameterKind::name},
     {"across",
      "the all_reduce among the first ranks of all hosts, as in parameter_server+spared=3; else ring",
      ParameterKind::name}}};

constexpr std::array<std::string_view, 2> kTriedInHosts = {"across=recursive_doubling", "inside=k_nomial"};

std::string inside_text(const ScheduleSpec& spec) {
  return spec.arguments.word("inside", "binomial");
}
std::string across_text(const ScheduleSpec& spec) {
  return spec.arguments.word("across", "ring");
}

/// Parses "chain+chunks=8": an algorithm with its arguments.
Result<ConfiguredAlgorithm> nested(schedule::Collective collective, std::string text) {
  std::ranges::replace(text, '+', ':');
  return parse_algorithm(collective, text);
}
Result<ConfiguredAlgorithm> inside_of(const ScheduleSpec& spec, schedule::Collective collective) {
  return nested(collective, inside_text(spec));
}
Result<ConfiguredAlgorithm> across_of(const ScheduleSpec& spec) {
  return nested(schedule::Collective::all_reduce, across_text(spec));
}

/// The ranks of each host; the first ranks, the leaders, are in ascending order.
using Hosts = std::vector<std::vector<int>>;

Hosts hosts_of(const ScheduleSpec& spec) {
  Hosts hosts;
  std::map<int, std::size_t> known;  // index of the host with that number
  for (int rank = 0; rank < spec.size; ++rank) {
    const int number = spec.hosts.empty() ? 0 : spec.hosts[static_cast<std::size_t>(rank)];
    const auto [host, is_new] = known.try_emplace(number, hosts.size());
    if (is_new) hosts.emplace_back();
    hosts[host->second].push_back(rank);
  }
  return hosts;
}

/// The spec of rank `rank` in a host of `size` ranks, or among `hosts` leaders.
ScheduleSpec inside_spec(const ConfiguredAlgorithm& inside, std::size_t rank, std::size_t size) {
  return {
      inside.algorithm->collective, static_cast<int>(rank), static_cast<int>(size), 0, inside.arguments, {}};
}
ScheduleSpec across_spec(const ConfiguredAlgorithm& across, std::size_t rank, std::size_t hosts) {
  ScheduleSpec spec = inside_spec(across, rank, hosts);
  spec.hosts.resize(hosts);
  std::iota(spec.hosts.begin(), spec.hosts.end(), 0);
  return spec;
}

schedule::Schedule inside(const ScheduleSpec& spec, schedule::Collective collective, std::size_t rank,
                          std::size_t size) {
  const ConfiguredAlgorithm inside = inside_of(spec, collective).value();
  return inside.algorithm->generate(inside_spec(inside, rank, size));
}
schedule::Schedule across(const ScheduleSpec& spec, std::size_t rank, std::size_t hosts) {
  const ConfiguredAlgorithm across = across_of(spec).value();
  return across.algorithm->generate(across_spec(across, rank, hosts));
}

/// The sizes of hosts with more than one rank, each once.
std::vector<std::size_t> sizes_inside(const Hosts& hosts) {
  std::vector<std::size_t> sizes;
  for (const auto& host : hosts) {
    if (host.size() > 1) sizes.push_back(host.size());
  }
  std::ranges::sort(sizes);
  sizes.erase(std::unique(sizes.begin(), sizes.end()), sizes.end());
  return sizes;
}

/// The least number of chunks that is a multiple of the chunks of all parts on all ranks.
std::uint32_t common_chunks(const ScheduleSpec& spec, const Hosts& hosts) {
  std::uint32_t chunks = hosts.size() > 1 ? across(spec, 0, hosts.size()).chunks : 1;
  for (const std::size_t size : sizes_inside(hosts)) {
    for (const schedule::Collective collective :
         {schedule::Collective::reduce, schedule::Collective::broadcast}) {
      chunks = std::lcm(chunks, inside(spec, collective, 0, size).chunks);
    }
  }
  return chunks;
}

bool may_be_inside(std::string_view name) {
  return find_algorithm(schedule::Collective::reduce, name) != nullptr &&
         find_algorithm(schedule::Collective::broadcast, name) != nullptr;
}
bool may_be_across(std::string_view name) {
  return name != "hierarchical" && find_algorithm(schedule::Collective::all_reduce, name) != nullptr;
}

/// Why `text` names no algorithm that is allowed here; empty if it names one.
std::string unknown(std::string text, std::string_view place, schedule::Collective collective,
                    bool (*may_be)(std::string_view)) {
  const std::string name = text.substr(0, text.find('+'));
  if (may_be(name)) return {};
  std::string list;
  for (const Algorithm& algorithm : algorithms()) {
    if (algorithm.collective != collective || !may_be(algorithm.name)) continue;
    list += (list.empty() ? "" : ", ") + std::string(algorithm.name);
  }
  return "has no '" + name + "' to take " + std::string(place) + "; it knows " + list;
}

std::string objection_inside(const ScheduleSpec& spec) {
  std::string why = unknown(inside_text(spec), "inside", schedule::Collective::reduce, may_be_inside);
  for (const schedule::Collective collective :
       {schedule::Collective::reduce, schedule::Collective::broadcast}) {
    if (!why.empty()) break;
    auto inside = inside_of(spec, collective);
    Status status = inside.status();
    for (const std::size_t size : sizes_inside(hosts_of(spec))) {
      if (status.ok()) status = supports(*inside->algorithm, inside_spec(*inside, 0, size));
    }
    if (!status.ok()) why = "cannot work inside hosts: " + status.message();
  }
  return why;
}

std::string objection_across(const ScheduleSpec& spec) {
  std::string why = unknown(across_text(spec), "across", schedule::Collective::all_reduce, may_be_across);
  if (!why.empty()) return why;
  const std::size_t hosts = hosts_of(spec).size();
  auto across = across_of(spec);
  Status status = across.status();
  if (status.ok() && hosts > 1) {
    status = supports(*across->algorithm, across_spec(*across, 0, hosts), {.in_place = true});
  }
  return status.ok() ? "" : "cannot reach across " + std::to_string(hosts) + " hosts: " + status.message();
}

std::string hierarchical_objection(const ScheduleSpec& spec) {
  const std::string why = objection_inside(spec);
  return why.empty() ? objection_across(spec) : why;
}

schedule::Schedule generate_all_reduce_hierarchical(const ScheduleSpec& spec) {
  const Hosts hosts = hosts_of(spec);
  std::vector<int> leaders;
  for (const auto& host : hosts) leaders.push_back(host.front());
  const auto own = std::ranges::find_if(
      hosts, [&](const auto& host) { return std::ranges::binary_search(host, spec.rank); });
  const auto number = static_cast<std::size_t>(own - hosts.begin());
  const auto place = static_cast<std::size_t>(std::ranges::find(*own, spec.rank) - own->begin());
  const bool is_shared = own->size() > 1;

  std::vector<Part> parts;
  if (is_shared) {
    parts.push_back({inside(spec, schedule::Collective::reduce, place, own->size()), *own,
                     schedule::BufferName::input, hosts.size() == 1});
  }
  if (hosts.size() > 1 && place == 0) {
    const schedule::BufferName from = is_shared ? schedule::BufferName::output : schedule::BufferName::input;
    parts.push_back({across(spec, number, hosts.size()), leaders, from, true});
  }
  if (is_shared) {
    parts.push_back({inside(spec, schedule::Collective::broadcast, place, own->size()), *own,
                     schedule::BufferName::output, true});
  }
  return compose(spec, common_chunks(spec, hosts), parts);
}

/// Where hosts have several ranks.
std::vector<Arguments> sparing_hosts(const ScheduleSpec& spec, const std::vector<int>& slow_hosts) {
  std::vector<Arguments> result;
  if (hosts_of(spec).size() == static_cast<std::size_t>(spec.size)) return result;
  for (const std::string_view chunks : kTriedPieces) {
    result.emplace_back().set(
        "across", "parameter_server+chunks=" + std::string(chunks) + "+spared=" + text_of(slow_hosts));
  }
  return result;
}

Arguments hosts_in_order(const ScheduleSpec& spec, const std::vector<int>& ring) {
  Arguments arguments = spec.arguments;
  if (across_text(spec) != "ring") return arguments;
  std::vector<int> hosts;  // the ranks of each host are consecutive
  for (const int rank : ring)
    hosts.push_back(spec.hosts.empty() ? 0 : spec.hosts[static_cast<std::size_t>(rank)]);
  hosts.erase(std::unique(hosts.begin(), hosts.end()), hosts.end());
  arguments.set("across", "ring+order=" + text_of(hosts));
  return arguments;
}

/// The parts one after the other, each at the cost of the slowest host, all in the same chunks.
StepsAndBytes cost(std::uint64_t, const ScheduleSpec& spec) {
  const Hosts hosts = hosts_of(spec);
  const std::uint64_t chunks = common_chunks(spec, hosts);
  const auto in_chunks = [&](const StepsAndBytes& cost, const schedule::Schedule& part) {
    return StepsAndBytes{cost.steps, cost.sent * (chunks / part.chunks)};
  };
  const auto slowest = [&](schedule::Collective collective) {
    StepsAndBytes most;
    for (const std::size_t size : sizes_inside(hosts)) {
      const ConfiguredAlgorithm algorithm = inside_of(spec, collective).value();
      const StepsAndBytes one =
          in_chunks(algorithm.algorithm->closed_form.of(inside_spec(algorithm, 0, size)),
                    inside(spec, collective, 0, size));
      most = {std::max(most.steps, one.steps), std::max(most.sent, one.sent)};
    }
    return most;
  };
  const StepsAndBytes reduce = slowest(schedule::Collective::reduce);
  const StepsAndBytes broadcast = slowest(schedule::Collective::broadcast);
  StepsAndBytes between;
  if (hosts.size() > 1) {
    const ConfiguredAlgorithm algorithm = across_of(spec).value();
    between = in_chunks(algorithm.algorithm->closed_form.of(across_spec(algorithm, 0, hosts.size())),
                        across(spec, 0, hosts.size()));
  }
  const bool are_equal =
      std::ranges::all_of(hosts, [&](const auto& host) { return host.size() == hosts.front().size(); });
  const std::uint64_t steps = reduce.steps + between.steps + broadcast.steps;
  // A host's first rank sends nothing while it sums up. Leaders that start at different times find other
  // leaders busy. No source bounds what that costs: the sixteenth is what was counted for up to 64 ranks.
  return {are_equal ? steps : steps + steps / 16, std::max(reduce.sent, between.sent) + broadcast.sent};
}

}  // namespace

const Algorithm all_reduce_hierarchical = {
    .collective = schedule::Collective::all_reduce,
    .name = "hierarchical",
    .purpose = "Sums inside each host, an all_reduce among their first ranks, the result inside each host",
    .use = "Several ranks a host: only one of them uses the network",
    .source =
        "N. T. Karonis, B. R. de Supinski, I. Foster, W. Gropp, E. Lusk, J. Bresnahan: Exploiting hierarchy "
        "in "
        "parallel computer networks to optimize collective operation performance, IPDPS 2000",
    .parameters = kHierarchicalParameters,
    .tried = kTriedInHosts,
    .sparing = sparing_hosts,
    .in_order = hosts_in_order,
    .closed_form = {.steps = "those of the reduce, the all_reduce and the broadcast, on the largest host; a "
                             "sixteenth more where hosts are unequal",
                    .sent = "what goes across and in the broadcast",
                    .at_most = true,
                    .cost = cost},
    .objection = hierarchical_objection,
    .generate = generate_all_reduce_hierarchical,
};

}  // namespace kolo::algorithms
