// all_reduce / double_tree: two binary trees, each for half of the data; a rank that is inner in one is a
// leaf of the other.
#include <algorithm>
#include <utility>
#include <vector>

#include "algorithms/formula.hpp"
#include "algorithms/pipeline.hpp"
#include "algorithms/registered.hpp"
#include "algorithms/turns.hpp"
#include "algorithms/two_trees.hpp"
#include "schedule/builder.hpp"

namespace kolo::algorithms {
namespace {

constexpr std::array<std::string_view, 2> kTriedInTrees = {"chunks=1", "chunks=16"};

struct Message {
  std::uint32_t step;  ///< step in which it is sent, if all messages take equally long
  std::uint32_t chunk;
  int peer;
  bool is_up;  ///< towards the root
  bool is_sent;
};

/// The messages of a rank, sorted by step. Sums go up level by level, the two colours in alternate steps,
/// piece after piece; each level is one round behind the level below it. Then results go down in the same
/// way. No rank has two messages to send, or two to receive, in one step.
std::vector<Message> messages_of(const ScheduleSpec& spec, const TwoTrees& trees) {
  const std::uint32_t pieces = chunks_of(spec);
  const auto levels = static_cast<std::uint32_t>(floor_log2(ranks_of(spec)));
  std::vector<Message> messages;
  for (const unsigned tree : {0u, 1u}) {
    // The edge to the parent of `child`, which is this rank or below it.
    const auto add = [&](int child, int peer) {
      const auto depth = static_cast<std::uint32_t>(trees.depth(tree, child));
      const auto colour = static_cast<std::uint32_t>(trees.colour(tree, child));
      const bool is_own = child == spec.rank;
      for (std::uint32_t piece = 0; piece < pieces; ++piece) {
        const std::uint32_t up = 2 * (levels - depth + piece) + colour;
        const std::uint32_t down = 2 * (levels + pieces - 1 + depth - 1 + piece) + colour;
        const std::uint32_t chunk = tree * pieces + piece;
        messages.push_back({up, chunk, peer, true, is_own});
        messages.push_back({down, chunk, peer, false, !is_own});
      }
    };
    if (const int parent = trees.parent(tree, spec.rank); parent >= 0) add(spec.rank, parent);
    for (const int child : trees.children(tree, spec.rank)) add(child, child);
  }
  std::ranges::sort(messages, {}, &Message::step);
  return messages;
}

schedule::Schedule generate_all_reduce_double_tree(const ScheduleSpec& spec) {
  const std::uint32_t pieces = chunks_of(spec);
  schedule::ScheduleBuilder builder(spec.collective, spec.rank, spec.size, spec.root, 2 * pieces);
  if (spec.size == 1) builder.copy(schedule::output(0, 2 * pieces), schedule::input(0, 2 * pieces));
  const TwoTrees trees(spec.size);
  const std::size_t children[] = {trees.children(0, spec.rank).size(), trees.children(1, spec.rank).size()};
  std::vector<std::size_t> heard(2 * pieces, 0);  // children whose sum of a chunk has arrived
  // One send after the other and one receive after the other. Otherwise leaves would send all their pieces
  // before inner ranks pass on their first one.
  Turns sends = Turns::always(builder);
  schedule::ScheduleBuilder::StepIds received;
  for (const Message& message : messages_of(spec, trees)) {
    const unsigned tree = message.chunk / pieces;
    const bool has_sum = !message.is_up || heard[message.chunk] > 0;
    const schedule::ChunkRange held =
        has_sum ? schedule::output(message.chunk) : schedule::input(message.chunk);
    if (message.is_sent) {
      sends.send(message.peer, held);
    } else if (message.is_up) {
      const bool is_last = ++heard[message.chunk] == children[tree];
      const bool completes = is_last && trees.parent(tree, spec.rank) < 0;
      received = {
          builder.recv_reduce(message.peer, schedule::output(message.chunk), held, completes, received)};
    } else {
      received = {builder.recv(message.peer, held, received)};
    }
  }
  return std::move(builder).finish();
}

}  // namespace

const Algorithm all_reduce_double_tree = {
    .collective = schedule::Collective::all_reduce,
    .name = "double_tree",
    .purpose = "Two binary trees, each for half of the data; an inner rank of one is a leaf of the other",
    .use = "Data of any length on many ranks: few steps, and no rank sends more than twice the data",
    .source =
        "P. Sanders, J. Speck, J. L. Traff: Two-tree algorithms for full bandwidth broadcast, reduction and "
        "scan, Parallel Computing 35 (2009), reduction and broadcast over two trees with coloured edges",
    .parameters = kChunksParameters,
    .tried = kTriedInTrees,
    .closed_form = {.steps = "4 (C-1 + floor(log2 N)), C chunks a tree",
                    .sent = "2 n; N/2 n where N < 4",
                    .at_most = true,
                    .cost = [](std::uint64_t n, const ScheduleSpec& spec) -> StepsAndBytes {
                      if (n == 1) return {0, 0};
                      const std::uint64_t chunks = chunks_of(spec);
                      return {4 * (chunks - 1 + floor_log2(n)), std::min<std::uint64_t>(n, 4) * chunks};
                    }},
    .objection = chunks_objection,
    .generate = generate_all_reduce_double_tree,
};

}  // namespace kolo::algorithms
