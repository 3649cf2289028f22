#include "kolo/train/parallel_model.hpp"

#include <cmath>
#include <string>

#include "kolo/error.hpp"

namespace kolo {

ParallelModel::NoSync::NoSync(ParallelModel& model) : model_(model) {
  if (model_.no_sync_depth_ == 0) model_.set_local(true);
  ++model_.no_sync_depth_;
}

ParallelModel::NoSync::~NoSync() {
  if (--model_.no_sync_depth_ == 0) model_.set_local(false);
}

void ParallelModel::require_scale(float scale) {
  if (scale > 0 && std::isfinite(scale)) return;
  throw InvalidArgumentError("a loss scale of " + std::to_string(scale) + " is not positive and finite", {});
}

}  // namespace kolo
