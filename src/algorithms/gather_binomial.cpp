// gather / binomial: ranks gather the parts of their subtree and pass them on together, log2(N) rounds.
#include <utility>

#include "algorithms/formula.hpp"
#include "algorithms/halving_tree.hpp"
#include "algorithms/pairs.hpp"
#include "algorithms/registered.hpp"
#include "schedule/builder.hpp"

namespace kolo::algorithms {
namespace {

schedule::Schedule generate_gather_binomial(const ScheduleSpec& spec) {
  const HalvingTree tree(spec.rank, spec.size, spec.root);
  const bool is_root = spec.rank == spec.root;
  const bool holds_others = !is_root && !tree.children.empty();
  schedule::ScheduleBuilder builder(spec.collective, spec.rank, spec.size, spec.root, part_of(spec.size));
  // Scratch is laid out as the parts are, so that the parts of a subtree are one message there too.
  if (holds_others)
    builder.lay_scratch_like(schedule::output(part_of(tree.begin), part_of(tree.end - tree.begin)));
  // The memory of the parts of ranks begin .. end.
  const auto parts = [&](int begin, int end) {
    const schedule::ChunkRange range = schedule::output(part_of(begin), part_of(end - begin));
    return is_root ? range : schedule::scratch(part_of(begin - tree.begin), range);
  };
  if (is_root || holds_others) builder.copy(parts(spec.rank, spec.rank + 1), schedule::input(0));
  // The smallest range first: it is ready first.
  for (auto child = tree.children.rbegin(); child != tree.children.rend(); ++child) {
    builder.recv(child->rank, parts(child->begin, child->end));
  }
  if (!is_root) builder.send(tree.parent, holds_others ? parts(tree.begin, tree.end) : schedule::input(0));
  return std::move(builder).finish();
}

}  // namespace

const Algorithm gather_binomial = {
    .collective = schedule::Collective::gather,
    .name = "binomial",
    .purpose = "Ranks gather the parts of their subtree and hand them on together, log2(N) rounds",
    .use = "Small parts, many ranks",
    .source =
        "E. Chan, M. Heimlich, A. Purkayastha, R. van de Geijn: Collective communication: theory, practice, "
        "and experience, CCPE 19 (2007), section 4, minimum-spanning-tree gather",
    .closed_form = {.steps = "ceil(log2 N)",
                    .sent = "floor(N/2)/N n",
                    .cost = [](std::uint64_t n, const ScheduleSpec&) -> StepsAndBytes {
                      return {ceil_log2(n), n / 2};
                    }},
    .generate = generate_gather_binomial,
};

}  // namespace kolo::algorithms
