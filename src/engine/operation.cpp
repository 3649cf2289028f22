#include "engine/operation.hpp"

#include <utility>

namespace kolo::engine {

void Operation::start_clock() {
  if (!is_timed_) started_ = last_progress_ = Clock::now();
  is_timed_ = true;
}

/// Calls mostly repeat: then the reference count is not touched.
void Operation::take(const OperationSpec& spec, bool is_timed) {
  spec_ = spec;
  if (spec.listed != nullptr) [[unlikely]]
    spec_.listed = &(listed_ = *spec.listed);
  source_ = spec.source;
  if (prepared_.get() != spec.prepared) prepared_ = spec.prepared->shared_from_this();
  if (!status_.ok()) status_ = Status();
  done_.store(false, std::memory_order_relaxed);
  is_timed_ = false;
  if (is_timed) start_clock();
}

void Operation::end(Status status, Clock::time_point when) {
  status_ = std::move(status);
  ended_ = when;
  done_.store(true, std::memory_order_release);
  for (Completion* completion : completions_) completion->signal();
  completions_.clear();
}

}  // namespace kolo::engine
