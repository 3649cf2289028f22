// TiedParameters: weights that the first and the last stage of a pipeline both use.
#pragma once

#include "kolo/train/libtorch.hpp"

#include <ATen/core/Tensor.h>

#include <vector>

#include "kolo/communicator.hpp"

namespace kolo::train {

/// A rank that has neither stage does nothing. One that has both may hold a weight twice, or once.
class TiedParameters {
 public:
  struct Pair {
    at::Tensor first;  ///< undefined where this rank has not the first stage; `last` likewise
    at::Tensor last;
  };

  /// `ends`: the ranks of the first and the last stage, in this order; not valid where they are one rank, and
  /// on others. The last stage's weights get the first one's values.
  TiedParameters(std::vector<Pair> pairs, const Communicator& ends);

  const std::vector<Pair>& pairs() const noexcept { return pairs_; }

  /// Before the backwards of a step: what gradients hold already has been summed.
  void begin();
  /// Adds up what backward has left on the two stages.
  void finish();
  /// After a failure: what begin() has taken away comes back.
  void restore();

 private:
  std::vector<Pair> pairs_;
  Communicator ends_;
  std::vector<at::Tensor> own_;      ///< this rank's, of which gradients are sums
  std::vector<at::Tensor> earlier_;  ///< their gradients before the step, perhaps undefined
};

}  // namespace kolo::train
