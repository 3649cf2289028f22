// broadcast / binomial: a binomial tree: everyone who has the data passes it on, log2(N) rounds.
#include <utility>

#include "algorithms/algorithm.hpp"
#include "algorithms/binomial_tree.hpp"
#include "algorithms/formula.hpp"
#include "schedule/builder.hpp"

namespace kolo {
namespace {

Schedule generate(const ScheduleSpec& spec) {
  ScheduleBuilder builder(spec.collective, spec.rank, spec.size, spec.root, 1);
  const BinomialTree tree(spec);
  if (spec.rank != spec.root) builder.recv(tree.parent, output(0));
  // The largest subtree first: it has the longest way to go.
  for (auto child = tree.children.rbegin(); child != tree.children.rend(); ++child) {
    builder.send(*child, output(0));
  }
  return std::move(builder).finish();
}

}  // namespace

extern const Algorithm broadcast_binomial;
const Algorithm broadcast_binomial = {
    .collective = Collective::broadcast,
    .name = "binomial",
    .purpose = "A binomial tree: everyone who has the data passes it on, log2(N) rounds",
    .use = "Short data, many ranks",
    .source =
        "R. Thakur, R. Rabenseifner, W. Gropp: Optimization of collective communication operations in MPICH, "
        "IJHPCA 19 (2005), broadcast",
    .closed_form =
        {
            .steps = "ceil(log2 N)",
            .sent = "ceil(log2 N) K",
            .of = [](const ScheduleSpec& spec) -> StepsAndBytes {
              const std::uint64_t n = ranks_of(spec);
              return {ceil_log2(n), ceil_log2(n)};
            },
        },
    .generate = generate,
};

}  // namespace kolo
