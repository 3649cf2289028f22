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

std::vector<int> Watch::waiting_for() const {
  std::vector<int> others;
  for (std::size_t r = 0; r < spec_.ranks().size(); ++r)
    if (spec_.ranks()[r] != rank_) others.push_back(static_cast<int>(r));
  return others;
}

}  // namespace kolo::engine
