// reduce / binomial: a binomial tree towards the root: every rank adds up its subtree, log2(N) rounds.
#include <utility>

#include "algorithms/algorithm.hpp"
#include "algorithms/binomial_tree.hpp"
#include "algorithms/formula.hpp"
#include "schedule/builder.hpp"

namespace kolo {
namespace {

Schedule generate(const ScheduleSpec& spec) {
  const BinomialTree tree(spec);
  const bool is_root = spec.rank == spec.root;
  ScheduleBuilder builder(spec.collective, spec.rank, spec.size, spec.root, 1,
                          is_root || tree.children.empty() ? 0 : 1);
  if (spec.size == 1) builder.copy(output(0), input(0));
  const ChunkRange sum = is_root ? output(0) : scratch(0, input(0));
  ChunkRange operand = input(0);
  // The smallest subtree first: it is ready first.
  for (const int child : tree.children) {
    builder.recv_reduce(child, sum, operand, is_root && child == tree.children.back());
    operand = sum;
  }
  if (!is_root) builder.send(tree.parent, operand);
  return std::move(builder).finish();
}

}  // namespace

extern const Algorithm reduce_binomial;
const Algorithm reduce_binomial = {
    .collective = Collective::reduce,
    .name = "binomial",
    .purpose = "A binomial tree towards the root: every rank adds up its subtree, log2(N) rounds",
    .use = "Short data, many ranks",
    .source =
        "R. Thakur, R. Rabenseifner, W. Gropp: Optimization of collective communication operations in MPICH, "
        "IJHPCA 19 (2005), reduce",
    .closed_form =
        {
            .steps = "ceil(log2 N)",
            .sent = "K",
            .of = [](const ScheduleSpec& spec) -> StepsAndBytes {
              const std::uint64_t n = ranks_of(spec);
              return {ceil_log2(n), n > 1 ? 1u : 0u};
            },
        },
    .generate = generate,
};

}  // namespace kolo
