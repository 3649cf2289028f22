// scatter / binomial: the root gives half of the parts to another rank; both continue so, log2(N) rounds.
#include <utility>

#include "algorithms/formula.hpp"
#include "algorithms/halving_tree.hpp"
#include "algorithms/pairs.hpp"
#include "algorithms/registered.hpp"
#include "schedule/builder.hpp"

namespace kolo::algorithms {
namespace {

schedule::Schedule generate_scatter_binomial(const ScheduleSpec& spec) {
  const HalvingTree tree(spec.rank, spec.size, spec.root);
  const bool is_root = spec.rank == spec.root;
  const bool holds_others = !is_root && !tree.children.empty();
  schedule::ScheduleBuilder builder(spec.collective, spec.rank, spec.size, spec.root, part_of(spec.size));
  // Scratch is laid out as the parts are, so that the parts of a subtree are one message there too.
  if (holds_others)
    builder.lay_scratch_like(schedule::input(part_of(tree.begin), part_of(tree.end - tree.begin)));
  // The memory of the parts of ranks begin .. end.
  const auto parts = [&](int begin, int end) {
    const schedule::ChunkRange range = schedule::input(part_of(begin), part_of(end - begin));
    return is_root ? range : schedule::scratch(part_of(begin - tree.begin), range);
  };
  const schedule::ChunkRange own =
      is_root || holds_others ? parts(spec.rank, spec.rank + 1) : schedule::output(0);
  if (!is_root) builder.recv(tree.parent, holds_others ? parts(tree.begin, tree.end) : own);
  for (const HalvingTree::Child& child : tree.children) {
    builder.send(child.rank, parts(child.begin, child.end));
  }
  if (is_root || holds_others) builder.copy(schedule::output(0), own);
  return std::move(builder).finish();
}

}  // namespace

const Algorithm scatter_binomial = {
    .collective = schedule::Collective::scatter,
    .name = "binomial",
    .purpose = "The root gives half of the parts to another rank, and both go on so, log2(N) rounds",
    .use = "Small parts, many ranks",
    .source =
        "E. Chan, M. Heimlich, A. Purkayastha, R. van de Geijn: Collective communication: theory, practice, "
        "and experience, CCPE 19 (2007), section 4, minimum-spanning-tree scatter",
    .closed_form = kDoublingParts,
    .generate = generate_scatter_binomial,
};

}  // namespace kolo::algorithms
