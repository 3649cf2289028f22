// ReplayedModel: parameters whose gradients get ready at the times of a trace, without computation.
#pragma once

#include "kolo/train/libtorch.hpp"

#include <torch/nn/module.h>

#include <memory>
#include <vector>

#include "train/accumulation_hook.hpp"
#include "train/timing.hpp"
#include "train/trace.hpp"

namespace kolo::bench {

/// forward() and backward() sleep where the trace computed. So the core is free for communication, whose
/// processor time must be reported too. Gradients are really added to buckets, and the sleeps are shorter by
/// that time.
class ReplayedModel : public torch::nn::Module {
 public:
  explicit ReplayedModel(Trace trace);

  /// The times of further steps.
  void set_trace(Trace trace) { trace_ = std::move(trace); }
  /// Sets the value of all elements of all gradients in the next backward(). Not part of a step's time.
  void set_gradients(float value);
  /// Uses each parameter at its time in a forward that is the reverse of the trace's backward.
  at::Tensor forward();
  /// Sleeps for the optimizer's time for this share of the parameters.
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
  double optimizing_ = 0;  ///< short times that optimize() has not slept yet, in seconds
};

}  // namespace kolo::bench
