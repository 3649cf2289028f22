// Reducer: steps of a rank that has no more data.
#include <c10/core/GradMode.h>

#include "gradients/reducer.hpp"

namespace kolo::train {

bool Reducer::follow(const std::function<void()>& empty_pass) {
  try {
    share_ = join_->wait();
  } catch (...) {
    fail();
  }
  if (share_.is_over) return false;
  has_share_ = true;
  if (empty_pass) {
    empty_pass();
    if (!has_share_) return true;
    leave("made an empty_pass without a backward() that averages");
    std::rethrow_exception(error_);
  }
  const c10::NoGradGuard no_grad;
  try {
    begin();
    for (std::size_t i = 0; i < states_.size(); ++i) {
      Parameter& state = states_[i];
      const bool is_used =
          !graph_ || graph_->used_anywhere() == nullptr || (*graph_->used_anywhere())[i] != 0;
      if (!is_used) {
        mark_ready(i, false);
        continue;
      }
      state.tensor.mutable_grad() = state.kind->zero(state.bucket, state.slot);
      state.used = !options_.find_unused_parameters && !graph_;
      if (!state.ready) mark_ready(i, state.used);
    }
  } catch (...) {
    fail();
  }
  finish();
  return true;
}

}  // namespace kolo::train
