// Reducer: averages that the next forward waits for.
#include "gradients/reducer.hpp"

namespace kolo::train {

void Reducer::finish_step() {
  if (!forward_) return;
  if (error_) std::rethrow_exception(error_);
  try {
    forward_->finish();
  } catch (...) {
    fail();
  }
  last_step();  // adds it to the total before the next one takes its place
}

void Reducer::require_sound_forward() {
  try {
    forward_->require_sound();
  } catch (...) {
    fail();
  }
}

void Reducer::begin_in_forward() {
  finish_step();  // of buckets that forward did not use
  if (check_ != nullptr) check_->step(communicator_);
  forward_->begin(communicator_, share_.root);
}

void Reducer::end_in_forward() {
  forward_->end();
  for (Parameter& state : states_) state.used = false;
  in_backward_ = false;
}

}  // namespace kolo::train
