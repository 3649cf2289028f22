// Averages: gradients that ranks average after each minibatch, with kolo or with Gloo.
#pragma once

#include "kolo/train/libtorch.hpp"

#include <ATen/core/Tensor.h>

#include <memory>
#include <string>

#include "kolo/communicator.hpp"

namespace cartpole {

class Averages {
 public:
  virtual ~Averages() = default;
  /// Collective.
  virtual void average(at::Tensor& gradients) = 0;
};

/// Collective. `library`: "kolo" or "gloo", which finds the other ranks by `communicator`; they must share a
/// host. Throws std::runtime_error where the program was built without Gloo.
std::unique_ptr<Averages> make_averages(const std::string& library, kolo::Communicator& communicator);

/// Of make_averages(). Null where the program was built without Gloo.
std::unique_ptr<Averages> make_gloo_averages(kolo::Communicator& communicator);

}  // namespace cartpole
