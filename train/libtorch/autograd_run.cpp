#include "libtorch/autograd_run.hpp"

#include "kolo/train/libtorch.hpp"

#include <torch/csrc/autograd/graph_task.h>

#include <cstddef>
#include <type_traits>

namespace kolo::train {

bool is_nested_run() {
  using torch::autograd::GraphTask;
  using Nodes = decltype(GraphTask::nodes_in_graph_);
  // libtorch tells of the current GraphTask only where this member of it is.
  const auto* const nodes = torch::autograd::get_current_graph_task_nodes_in_graph();
  static_assert(std::is_same_v<decltype(nodes), const Nodes* const>);
  if (nodes == nullptr) return false;
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Winvalid-offsetof"  // fine for a class without virtual bases
  constexpr std::size_t kOffset = offsetof(GraphTask, nodes_in_graph_);
#pragma GCC diagnostic pop
  const auto* const address = reinterpret_cast<const std::byte*>(nodes) - kOffset;
  return reinterpret_cast<const GraphTask*>(address)->reentrant_depth_ > 0;
}

}  // namespace kolo::train
