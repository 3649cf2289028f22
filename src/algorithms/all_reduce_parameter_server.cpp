// all_reduce / parameter_server: each of S servers combines its share of the data and sends everyone the
// result.
#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "algorithms/algorithm.hpp"
#include "algorithms/fold.hpp"
#include "algorithms/formula.hpp"
#include "algorithms/group.hpp"
#include "algorithms/pairs.hpp"
#include "schedule/builder.hpp"

namespace kolo {
namespace {

constexpr std::array<Parameter, 1> kParameters = {
    {{"servers", "how many ranks serve a share each, the first ones; else half of them, at least one"}}};

int servers_of(const ScheduleSpec& spec) {
  return spec.arguments.number("servers", std::max(1, spec.size / 2));
}

std::string objection(const ScheduleSpec& spec) {
  if (servers_of(spec) <= spec.size) return {};
  return "needs no more servers than the " + std::to_string(spec.size) + " ranks";
}

Schedule generate(const ScheduleSpec& spec) {
  const int servers = servers_of(spec);
  const bool serves = spec.rank < servers;
  ScheduleBuilder builder(spec.collective, spec.rank, spec.size, spec.root, part_of(servers),
                          serves ? received_scratch(spec.size) : 0);
  const auto for_each_server = [&](auto visit) {
    for (int k = 1; k < spec.size; ++k) {
      if (const int server = after(spec, k); server < servers) visit(server);
    }
  };
  const ChunkRange own = output(part_of(spec.rank));
  for_each_server([&](int server) { builder.send(server, input(part_of(server))); });
  if (serves) fold_received(builder, everybody(spec), own, input(part_of(spec.rank)));
  for_each_server([&](int server) { builder.recv(server, output(part_of(server))); });
  if (serves) {
    for (int k = 1; k < spec.size; ++k) builder.send(after(spec, k), own);
  }
  return std::move(builder).finish();
}

}  // namespace

extern const Algorithm all_reduce_parameter_server;
const Algorithm all_reduce_parameter_server = {
    .collective = Collective::all_reduce,
    .name = "parameter_server",
    .purpose = "Each of S servers combines its share of the data in rank order and sends everyone the result",
    .use = "Where some ranks have better links than others and can serve; to compare with",
    .source =
        "M. Li et al.: Scaling distributed machine learning with the parameter server, OSDI 2014, section 3; "
        "here the servers are workers too, and all wait for all",
    .rank_ordered = true,
    .parameters = kParameters,
    .closed_form =
        {
            .steps = "2(N-1)",
            .sent = "(N+S-2)/S K",
            .of = [](const ScheduleSpec& spec) -> StepsAndBytes {
              const std::uint64_t n = ranks_of(spec);
              return {2 * (n - 1), n + static_cast<std::uint64_t>(servers_of(spec)) - 2};
            },
        },
    .objection = objection,
    .generate = generate,
};

}  // namespace kolo
