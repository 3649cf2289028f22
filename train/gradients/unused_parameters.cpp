#include "gradients/unused_parameters.hpp"

#include <unordered_set>

namespace kolo::train {

std::vector<bool> reachable(std::span<const torch::autograd::Edge> edges,
                            std::span<const NodePtr> accumulators) {
  std::unordered_set<torch::autograd::Node*> met;
  std::vector<torch::autograd::Node*> open;
  const auto visit = [&](torch::autograd::Node* node) {
    if (node != nullptr && met.insert(node).second) open.push_back(node);
  };
  for (const torch::autograd::Edge& edge : edges) visit(edge.function.get());
  while (!open.empty()) {
    torch::autograd::Node* node = open.back();
    open.pop_back();
    for (const torch::autograd::Edge& edge : node->next_edges()) visit(edge.function.get());
  }
  std::vector<bool> result;
  for (const auto& accumulator : accumulators) result.push_back(met.contains(accumulator.get()));
  return result;
}

}  // namespace kolo::train
