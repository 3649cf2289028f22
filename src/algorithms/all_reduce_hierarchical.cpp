// all_reduce / hierarchical: sums inside each host, an all_reduce among the first ranks of the hosts, then
// the result inside each host.
#include <algorithm>
#include <array>
#include <map>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "algorithms/algorithm.hpp"
#include "algorithms/compose.hpp"
#include "algorithms/formula.hpp"
#include "algorithms/pairs.hpp"

namespace kolo {
namespace {

constexpr std::array<Parameter, 2> kParameters = {
    {{"inside", "the reduce and the broadcast inside each host; else binomial", ParameterKind::name},
     {"across", "the all_reduce among the first ranks of all hosts; else ring", ParameterKind::name}}};

std::string inside_of(const ScheduleSpec& spec) {
  return spec.arguments.word("inside", "binomial");
}
std::string across_of(const ScheduleSpec& spec) {
  return spec.arguments.word("across", "ring");
}

/// The ranks of each host; their first ones, the leaders, are in ascending order.
using Hosts = std::vector<std::vector<int>>;

Hosts hosts_of(const ScheduleSpec& spec) {
  Hosts hosts;
  std::map<int, std::size_t> known;  // where a host of that number stands
  for (int rank = 0; rank < spec.size; ++rank) {
    const int number = spec.hosts.empty() ? 0 : spec.hosts[static_cast<std::size_t>(rank)];
    const auto [host, is_new] = known.try_emplace(number, hosts.size());
    if (is_new) hosts.emplace_back();
    hosts[host->second].push_back(rank);
  }
  return hosts;
}

/// What `rank` of a host of so many ranks, or of so many leaders, is asked for.
ScheduleSpec inside_spec(Collective collective, std::size_t rank, std::size_t size) {
  return {collective, static_cast<int>(rank), static_cast<int>(size), 0, {}, {}};
}
ScheduleSpec across_spec(std::size_t rank, std::size_t hosts) {
  ScheduleSpec spec = inside_spec(Collective::all_reduce, rank, hosts);
  spec.hosts.resize(hosts);
  std::iota(spec.hosts.begin(), spec.hosts.end(), 0);
  return spec;
}

Schedule inside(const ScheduleSpec& spec, Collective collective, std::size_t rank, std::size_t size) {
  return find_algorithm(collective, inside_of(spec))->generate(inside_spec(collective, rank, size));
}
Schedule across(const ScheduleSpec& spec, std::size_t rank, std::size_t hosts) {
  return find_algorithm(Collective::all_reduce, across_of(spec))->generate(across_spec(rank, hosts));
}

/// The sizes of hosts on which there is something to do, each once.
std::vector<std::size_t> sizes_inside(const Hosts& hosts) {
  std::vector<std::size_t> sizes;
  for (const auto& host : hosts) {
    if (host.size() > 1) sizes.push_back(host.size());
  }
  std::ranges::sort(sizes);
  sizes.erase(std::unique(sizes.begin(), sizes.end()), sizes.end());
  return sizes;
}

/// The fewest chunks that all parts on all ranks can divide into theirs.
std::uint32_t common_chunks(const ScheduleSpec& spec, const Hosts& hosts) {
  std::uint32_t chunks = hosts.size() > 1 ? across(spec, 0, hosts.size()).chunks : 1;
  for (const std::size_t size : sizes_inside(hosts)) {
    for (const Collective collective : {Collective::reduce, Collective::broadcast}) {
      chunks = std::lcm(chunks, inside(spec, collective, 0, size).chunks);
    }
  }
  return chunks;
}

bool may_be_inside(std::string_view name) {
  return find_algorithm(Collective::reduce, name) != nullptr &&
         find_algorithm(Collective::broadcast, name) != nullptr;
}
bool may_be_across(std::string_view name) {
  return name != "hierarchical" && find_algorithm(Collective::all_reduce, name) != nullptr;
}

/// "a, b, c": those of a collective's algorithms that may be it.
std::string names(Collective collective, bool (*may_be)(std::string_view)) {
  std::string list;
  for (const Algorithm& algorithm : algorithms()) {
    if (algorithm.collective != collective || !may_be(algorithm.name)) continue;
    list += (list.empty() ? "" : ", ") + std::string(algorithm.name);
  }
  return list;
}

std::string objection(const ScheduleSpec& spec) {
  if (!may_be_inside(inside_of(spec))) {
    return "has no '" + inside_of(spec) + "' to take inside; it knows " +
           names(Collective::reduce, may_be_inside);
  }
  if (!may_be_across(across_of(spec))) {
    return "has no '" + across_of(spec) + "' to take across; it knows " +
           names(Collective::all_reduce, may_be_across);
  }
  const std::size_t hosts = hosts_of(spec).size();
  const Algorithm& across = *find_algorithm(Collective::all_reduce, across_of(spec));
  if (hosts == 1) return {};
  const Status status = supports(across, across_spec(0, hosts), {.in_place = true});
  return status.ok() ? "" : "cannot reach across " + std::to_string(hosts) + " hosts: " + status.message();
}

Schedule generate(const ScheduleSpec& spec) {
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
    parts.push_back(
        {inside(spec, Collective::reduce, place, own->size()), *own, BufferName::input, hosts.size() == 1});
  }
  if (hosts.size() > 1 && place == 0) {
    const BufferName from = is_shared ? BufferName::output : BufferName::input;
    parts.push_back({across(spec, number, hosts.size()), leaders, from, true});
  }
  if (is_shared) {
    parts.push_back(
        {inside(spec, Collective::broadcast, place, own->size()), *own, BufferName::output, true});
  }
  return compose(spec, common_chunks(spec, hosts), parts);
}

/// The parts one after the other, the slowest host's each time; all in the same chunks.
StepsAndBytes cost(const ScheduleSpec& spec) {
  const Hosts hosts = hosts_of(spec);
  const std::uint64_t chunks = common_chunks(spec, hosts);
  const auto in_chunks = [&](const StepsAndBytes& cost, const Schedule& part) {
    return StepsAndBytes{cost.steps, cost.sent * (chunks / part.chunks)};
  };
  const auto slowest = [&](Collective collective) {
    StepsAndBytes most;
    for (const std::size_t size : sizes_inside(hosts)) {
      const Algorithm& algorithm = *find_algorithm(collective, inside_of(spec));
      const StepsAndBytes one = in_chunks(algorithm.closed_form.of(inside_spec(collective, 0, size)),
                                          inside(spec, collective, 0, size));
      most = {std::max(most.steps, one.steps), std::max(most.sent, one.sent)};
    }
    return most;
  };
  const StepsAndBytes reduce = slowest(Collective::reduce);
  const StepsAndBytes broadcast = slowest(Collective::broadcast);
  StepsAndBytes between;
  if (hosts.size() > 1) {
    const Algorithm& algorithm = *find_algorithm(Collective::all_reduce, across_of(spec));
    between =
        in_chunks(algorithm.closed_form.of(across_spec(0, hosts.size())), across(spec, 0, hosts.size()));
  }
  // A host's first rank sends nothing while it sums up.
  return {reduce.steps + between.steps + broadcast.steps,
          std::max(reduce.sent, between.sent) + broadcast.sent};
}

}  // namespace

extern const Algorithm all_reduce_hierarchical;
const Algorithm all_reduce_hierarchical = {
    .collective = Collective::all_reduce,
    .name = "hierarchical",
    .purpose = "Sums inside each host, an all_reduce among their first ranks, the result inside each host",
    .use = "Several ranks a host: only one of them uses the network",
    .source =
        "N. T. Karonis, B. R. de Supinski, I. Foster, W. Gropp, E. Lusk, J. Bresnahan: Exploiting hierarchy "
        "in "
        "parallel computer networks to optimize collective operation performance, IPDPS 2000",
    .parameters = kParameters,
    .closed_form =
        {
            .steps = "at most those of the reduce, the all_reduce and the broadcast, on the largest host",
            .sent = "at most what goes across and in the broadcast",
            .at_most = true,
            .of = cost,
        },
    .objection = objection,
    .generate = generate,
};

}  // namespace kolo
