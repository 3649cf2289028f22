// ReplayedModel: parameters of a trace whose gradients get ready when the trace says, with nothing computed.
#pragma once

#include "kolo/train/libtorch.hpp"

#include <torch/nn/module.h>

#include <memory>
#include <vector>

#include "train/accumulation_hook.hpp"
#include "train/timing.hpp"
#include "train/trace.hpp"

namespace kolo::bench {

/// forward() and backward() sleep where the trace computed, so that a core is free for communication as that
/// of a machine of its own would not be: what communication costs in processor time must be looked at beside.
/// Adding a gradient to the bucket is real, and its time is taken off the sleep.
class ReplayedModel : public torch::nn::Module {
 public:
  explicit ReplayedModel(Trace trace);

  /// The times of further steps.
  void set_trace(Trace trace) { trace_ = std::move(trace); }
  /// What every element of every gradient will be in the next backward(). Not part of a step's time.
  void set_gradients(float value);
  /// Its backward() is the trace's. Uses each parameter when forward would, if it computes as backward does,
  /// the other way round.
  at::Tensor forward();
  /// Sleeps as long as the optimizer took for this share of the parameters.
  void optimize(double share = 1);

 private:
  struct Parameter {
    at::Tensor tensor;
    at::Tensor gradient;
    AccumulationHook::Node node;
    double lag = 0;  ///< in the last step, from the end of the sleep until the gradient was accumulated
  };
  class Wait;

  double use_of(std::size_t index) const;
  void wait_for(std::size_t index);
  void note_accumulated(std::size_t index);

  Trace trace_;
  std::vector<Parameter> parameters_;
  std::vector<std::size_t> order_;  ///< of readiness
  Clock::time_point backward_begin_;
  Clock::time_point woken_;
  bool in_backward_ = false;
  double optimizing_ = 0;  ///< seconds that optimize() has not slept yet, as they were too short
};

}  // namespace kolo::bench
