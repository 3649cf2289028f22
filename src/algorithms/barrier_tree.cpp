// barrier / tree: rank 0 waits for all ranks over a binomial tree, then releases them over it.
#include <utility>

#include "algorithms/formula.hpp"
#include "algorithms/k_nomial_tree.hpp"
#include "algorithms/registered.hpp"
#include "schedule/builder.hpp"

namespace kolo::algorithms {
namespace {

schedule::Schedule generate_barrier_tree(const ScheduleSpec& spec) {
  schedule::ScheduleBuilder builder(spec.collective, spec.rank, spec.size, spec.root, 0);
  const KNomialTree tree(spec, kBinomial);
  schedule::ScheduleBuilder::StepIds heard;
  for (const int child : tree.children) heard.push_back(builder.await(child));
  if (tree.parent >= 0) {
    builder.notify(tree.parent, heard);
    heard = {builder.await(tree.parent)};
  }
  for (auto child = tree.children.rbegin(); child != tree.children.rend(); ++child) {
    builder.notify(*child, heard);
  }
  return std::move(builder).finish();
}

}  // namespace

const Algorithm barrier_tree = {
    .collective = schedule::Collective::barrier,
    .name = "tree",
    .purpose = "Rank 0 hears of all ranks over a binomial tree, and releases them over it",
    .use = "Many ranks on a network that few messages should cross: 2(N-1) in all",
    .source =
        "D. Hensgen, R. Finkel, U. Manber: Two algorithms for barrier synchronization, Int. J. Parallel "
        "Programming 17 (1988), the tournament",
    .closed_form = {.steps = "2 ceil(log2 N)",
                    .sent = "0",
                    .cost = [](std::uint64_t n, const ScheduleSpec&) -> StepsAndBytes {
                      return {2 * ceil_log2(n), 0};
                    }},
    .generate = generate_barrier_tree,
};

}  // namespace kolo::algorithms
