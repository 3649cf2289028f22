// ParameterCheck: proves now and then that all ranks still hold the same parameters.
#pragma once

#include "kolo/train/libtorch.hpp"

#include <cstdint>
#include <vector>

#include "kolo/communicator.hpp"
#include "ranks/replicas.hpp"

namespace kolo::train {

class ParameterCheck {
 public:
  /// Checks in the first step and in every `every`-th after it; never if that is 0.
  ParameterCheck(std::vector<NamedTensor> parameters, std::uint64_t every)
      : parameters_(std::move(parameters)), every_(every) {}

  /// Collective, once a step: throws MismatchError, on all ranks, that names the rank that differs from most
  /// and the first parameter in which it does.
  void step(Communicator& communicator);

 private:
  std::vector<NamedTensor> parameters_;
  std::uint64_t every_;
  std::uint64_t steps_ = 0;
};

}  // namespace kolo::train
