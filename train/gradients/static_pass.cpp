// Reducer: backward passes that are all alike (static_graph).
#include <c10/core/GradMode.h>

#include "gradients/reducer.hpp"

namespace kolo::train {

void Reducer::begin_static_pass() {
  graph_->begin();
  for (std::size_t i = 0; i < states_.size(); ++i) {
    if (!graph_->is_reached(i)) mark_ready(i, false);
  }
}

void Reducer::end_static_pass() {
  const c10::NoGradGuard no_grad;
  try {
    StaticGraph::Flags used;
    for (const Parameter& state : states_) used.push_back(state.used ? 1 : 0);
    for (const std::size_t i : graph_->end(used))
      mark_ready(i, states_[i].used && states_[i].tensor.grad().defined());
  } catch (...) {
    fail();
  }
}

}  // namespace kolo::train
