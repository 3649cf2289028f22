#include "gradients/averaging.hpp"

namespace kolo::train {

void Averaging::begin(const StepShare& share, std::uint32_t step) {
  share_ = share;
  step_ = step;
  communicator_.set_label(kLabel, step);
  next_ = 0;
  missing_ = sizes_;
  prepare();
}

void Averaging::collect(std::size_t bucket, std::size_t slot, const at::Tensor& parameter,
                        bool has_gradient) {
  take(bucket, slot, parameter, has_gradient);
  --missing_[bucket];
  while (next_ < missing_.size() && missing_[next_] == 0) start(next_++);
}

}  // namespace kolo::train
