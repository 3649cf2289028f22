// all_reduce / parameter_server: each of S servers combines its share of the data and sends the result to all
// ranks.
#include <algorithm>
#include <array>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "algorithms/fold.hpp"
#include "algorithms/formula.hpp"
#include "algorithms/group.hpp"
#include "algorithms/pairs.hpp"
#include "algorithms/pipeline.hpp"
#include "algorithms/registered.hpp"
#include "schedule/builder.hpp"

namespace kolo::algorithms {
namespace {

constexpr std::array<Parameter, 3> kServerParameters = {
    {{"servers",
      "how many ranks serve a share each, the first that are not spared; else all of these, and half of the "
      "ranks, at least one, where none is spared"},
     {"spared", "ranks that do not serve, as their links are slow; 0-3 names two", ParameterKind::numbers},
     {"chunks", "pieces of a share, so that results come while contributions still go; else 1"}}};

constexpr std::array<std::string_view, 1> kTriedServers = {"servers=2"};

std::vector<int> spared_in(const ScheduleSpec& spec) {
  return spec.arguments.numbers("spared");
}

/// The ranks that may serve, in ascending order.
std::vector<int> willing(const ScheduleSpec& spec) {
  const std::vector<int> spared = spared_in(spec);
  std::vector<int> ranks;
  for (int rank = 0; rank < spec.size; ++rank) {
    if (std::ranges::find(spared, rank) == spared.end()) ranks.push_back(rank);
  }
  return ranks;
}

int server_count(const ScheduleSpec& spec, int may_serve) {
  const int usual = spared_in(spec).empty() ? std::max(1, spec.size / 2) : may_serve;
  return spec.arguments.number("servers", usual);
}

std::vector<int> servers_of(const ScheduleSpec& spec) {
  std::vector<int> ranks = willing(spec);
  ranks.resize(static_cast<std::size_t>(server_count(spec, static_cast<int>(ranks.size()))));
  return ranks;
}

std::uint32_t pieces_of(const ScheduleSpec& spec) {
  return chunks_of(spec, 1);
}

std::string server_objection(const ScheduleSpec& spec) {
  const std::vector<int> spared = spared_in(spec);
  if (std::ranges::any_of(spared, [&](int rank) { return rank >= spec.size; })) {
    return "can spare none but the ranks 0 to " + std::to_string(spec.size - 1);
  }
  const auto may_serve = static_cast<int>(willing(spec).size());
  if (may_serve == 0) return "needs a rank that is not spared";
  if (server_count(spec, may_serve) > may_serve) {
    return "needs no more servers than the " + std::to_string(may_serve) + " ranks" +
           (spared.empty() ? "" : " that are not spared");
  }
  return chunks_objection(spec);
}

/// Where each rank is alone on its host. Else only one rank of each host should use its link.
std::vector<Arguments> sparing_servers(const ScheduleSpec& spec, const std::vector<int>& slow_hosts) {
  const std::set<int> hosts(spec.hosts.begin(), spec.hosts.end());
  if (hosts.size() != spec.hosts.size()) return {};
  std::vector<int> ranks;
  for (const int host : slow_hosts)
    ranks.push_back(static_cast<int>(std::ranges::find(spec.hosts, host) - spec.hosts.begin()));
  std::vector<Arguments> result;
  for (const std::string_view chunks : kTriedPieces) {
    Arguments& arguments = result.emplace_back();
    arguments.set("chunks", chunks);
    arguments.set("spared", text_of(ranks));
  }
  return result;
}

/// Piece after piece, so that the piece that is complete first goes back first, over a link that carries both
/// directions at once. A rank that does not serve sends the data once and receives it once, whatever the
/// other ranks do.
schedule::Schedule generate_all_reduce_parameter_server(const ScheduleSpec& spec) {
  const std::vector<int> servers = servers_of(spec);
  const std::uint32_t pieces = pieces_of(spec);
  const auto place_of = [&](int rank) {  // among the servers
    return static_cast<std::uint32_t>(std::ranges::find(servers, rank) - servers.begin());
  };
  const std::uint32_t own_place = place_of(spec.rank);
  const bool serves = own_place < servers.size();
  const std::uint32_t chunks = static_cast<std::uint32_t>(servers.size()) * pieces;
  const std::uint32_t slots = received_scratch(spec.size);  // of a piece
  schedule::ScheduleBuilder builder(spec.collective, spec.rank, spec.size, spec.root, chunks,
                                    serves ? slots * pieces : chunks);
  const auto for_each_server = [&](auto visit) {
    for (std::uint32_t piece = 0; piece < pieces; ++piece) {
      for (int k = 1; k < spec.size; ++k) {
        const std::uint32_t place = place_of(after(spec, k));
        if (place < servers.size()) visit(after(spec, k), place * pieces + piece);
      }
    }
  };
  const auto for_each_own = [&](auto visit) {
    for (std::uint32_t piece = 0; serves && piece < pieces; ++piece) visit(piece, own_place * pieces + piece);
  };
  for_each_server([&](int server, std::uint32_t chunk) { builder.send(server, schedule::input(chunk)); });
  for_each_own([&](std::uint32_t piece, std::uint32_t chunk) {
    fold_received(builder, all_ranks(spec), schedule::output(chunk), schedule::input(chunk), true,
                  piece * slots);
  });
  for_each_server([&](int server, std::uint32_t chunk) {
    if (serves) {
      builder.recv(server, schedule::output(chunk));
      return;
    }
    // Receive into scratch, not straight into the output. In place, the receive would be posted only after
    // the contribution has left, and its request would wait behind all other contributions in the link's
    // queue.
    const schedule::ChunkRange result = schedule::scratch(chunk, schedule::output(chunk));
    builder.recv(server, result);
    builder.copy(schedule::output(chunk), result);
  });
  for_each_own([&](std::uint32_t, std::uint32_t chunk) {
    for (int k = 1; k < spec.size; ++k) builder.send(after(spec, k), schedule::output(chunk));
  });
  return std::move(builder).finish();
}

}  // namespace

const Algorithm all_reduce_parameter_server = {
    .collective = schedule::Collective::all_reduce,
    .name = "parameter_server",
    .purpose =
        "Each of S servers combines its share of the data in rank order and sends each rank the result",
    .use = "Where some ranks have slower links than others: a spared rank sends and gets the data once",
    .source =
        "M. Li et al.: Scaling distributed machine learning with the parameter server, OSDI 2014, section 3; "
        "here the servers are workers too, and all wait for all",
    .rank_ordered = true,
    .parameters = kServerParameters,
    .tried = kTriedServers,
    .sparing = sparing_servers,
    .closed_form = {.steps = "(N+S-2) C + N-S, C pieces of a share",
                    .sent = "(N+S-2)/S n",
                    .cost = [](std::uint64_t n, const ScheduleSpec& spec) -> StepsAndBytes {
                      const std::uint64_t servers = servers_of(spec).size();
                      const std::uint64_t sent = (n + servers - 2) * pieces_of(spec);
                      return {sent + n - servers, sent};
                    }},
    .objection = server_objection,
    .generate = generate_all_reduce_parameter_server,
};

}  // namespace kolo::algorithms
