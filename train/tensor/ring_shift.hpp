// A step of a ring: a tensor goes to the next rank while one comes from the rank before.
#pragma once

#include "kolo/train/libtorch.hpp"

#include <ATen/core/Tensor.h>

#include <vector>

#include "kolo/communicator.hpp"

namespace kolo::train {

/// Holds both tensors until the transfer is over; an object that ends before waits for that.
class RingShift {
 public:
  /// Starts. Both are contiguous, perhaps empty; the tags of what travels at a time differ.
  RingShift(Communicator& group, at::Tensor sent, at::Tensor received, int tag);
  ~RingShift();
  RingShift(const RingShift&) = delete;
  RingShift& operator=(const RingShift&) = delete;

  /// What has come. Throws the error of the operation that failed.
  at::Tensor wait();

 private:
  at::Tensor sent_, received_;
  std::vector<Work> works_;
};

}  // namespace kolo::train
