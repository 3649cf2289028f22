// broadcast / scatter_all_gather: the root scatters the data over a tree, then the pieces travel around a
// ring.
#include <utility>

#include "algorithms/formula.hpp"
#include "algorithms/halving_tree.hpp"
#include "algorithms/pairs.hpp"
#include "algorithms/registered.hpp"
#include "schedule/builder.hpp"

namespace kolo::algorithms {
namespace {

/// The pieces, counted from the root's, that the rank `places` after the root holds after the scatter.
HalvingTree place_of(const ScheduleSpec& spec, int places) {
  return {places % spec.size, spec.size, 0};
}

schedule::ChunkRange pieces(int begin, int end) {
  return schedule::output(part_of(begin), part_of(end - begin));
}

schedule::Schedule generate_broadcast_scatter_all_gather(const ScheduleSpec& spec) {
  schedule::ScheduleBuilder builder(spec.collective, spec.rank, spec.size, spec.root, part_of(spec.size));
  const int v = (spec.rank - spec.root + spec.size) % spec.size;
  const auto rank_of = [&](int place) { return (place + spec.root) % spec.size; };
  const HalvingTree tree = place_of(spec, v);
  const HalvingTree next = place_of(spec, v + 1);
  if (v > 0) builder.recv(rank_of(tree.parent), pieces(tree.begin, tree.end));
  schedule::ScheduleBuilder::StepIds sent;
  for (const HalvingTree::Child& child : tree.children) {
    sent.push_back(builder.send(rank_of(child.rank), pieces(child.begin, child.end)));
  }
  // A rank's ring sends wait for its scatter sends: without the scatter, other ranks have nothing to pass on.
  // No rank is sent a piece that it already has.
  const auto lacks = [](const HalvingTree& who, int piece) { return piece < who.begin || piece >= who.end; };
  for (int round = 0; round + 1 < spec.size; ++round) {
    const int outgoing = (v - round + spec.size) % spec.size;
    const int incoming = (v - round - 1 + spec.size) % spec.size;
    if (lacks(next, outgoing)) builder.send(after(spec, 1), pieces(outgoing, outgoing + 1), sent);
    if (lacks(tree, incoming)) builder.recv(before(spec, 1), pieces(incoming, incoming + 1));
  }
  return std::move(builder).finish();
}

}  // namespace

const Algorithm broadcast_scatter_all_gather = {
    .collective = schedule::Collective::broadcast,
    .name = "scatter_all_gather",
    .purpose = "The root scatters the data over a tree, then its pieces travel around a ring",
    .use = "Large data, many ranks: no rank sends more than about twice the data",
    .source =
        "M. Barnett, L. Shuler, R. van de Geijn, S. Gupta, D. Payne, J. Watts: Interprocessor collective "
        "communication library (InterCom), SHPCC 1994, long-vector broadcast",
    .closed_form = {.steps = "ceil(log2 N) + N-1",
                    .sent = "2(N-1)/N n",
                    .cost = [](std::uint64_t n, const ScheduleSpec&) -> StepsAndBytes {
                      return {ceil_log2(n) + n - 1, 2 * (n - 1)};
                    }},
    .generate = generate_broadcast_scatter_all_gather,
};

}  // namespace kolo::algorithms
