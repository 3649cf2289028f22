#include "train/overlapped_replay.hpp"

#include <torch/optim/optimizer.h>
#include <torch/optim/sgd.h>

#include <utility>

#include "train/require_average.hpp"

namespace kolo::bench {

/// In place of a step it verifies the averages and sleeps.
class OverlappedReplay::Step : public torch::optim::Optimizer {
 public:
  Step(const std::vector<at::Tensor>& parameters, ReplayedModel& model, double share, float expected)
      : Optimizer(parameters, std::make_unique<torch::optim::SGDOptions>(1.0)),
        model_(model),
        share_(share),
        expected_(expected) {}

  at::Tensor step(LossClosure = nullptr) override {
    for (const auto& group : param_groups()) {
      for (const at::Tensor& parameter : group.params()) {
        require_average(parameter.grad().data_ptr(), static_cast<std::size_t>(parameter.numel()), expected_);
      }
    }
    model_.optimize(share_);
    return {};
  }

 private:
  ReplayedModel& model_;
  double share_;
  float expected_;
};

OverlappedReplay::OverlappedReplay(const Trace& trace, Communicator communicator,
                                   DistributedDataParallelOptions options)
    : communicator_(std::move(communicator)), model_(std::make_shared<ReplayedModel>(trace)) {
  const auto all = static_cast<double>(trace.bytes());
  options.overlap_forward = [this, all](const std::vector<at::Tensor>& parameters) {
    double bytes = 0;
    for (const at::Tensor& parameter : parameters) bytes += static_cast<double>(parameter.nbytes());
    return std::make_unique<Step>(parameters, *model_, bytes / all,
                                  static_cast<float>(communicator_.size() + 1) / 2);
  };
  parallel_ = std::make_unique<DistributedDataParallel<ReplayedModel>>(model_, communicator_, options);
}

StepTimes OverlappedReplay::run(const Trace& trace, int steps, int left_out) {
  model_->set_trace(trace);
  model_->set_gradients(static_cast<float>(communicator_.rank() + 1));
  StepClock clock(left_out);
  communicator_.barrier();
  clock.begin();
  for (int step = 0; step < left_out + steps; ++step) {
    (*parallel_)().backward();
    clock.end(parallel_->last_step().exposed);
  }
  parallel_->finish_step();
  return clock.take();
}

double OverlappedReplay::first_share() {
  double first = 0, all = 0;
  for (const auto& bucket : parallel_->buckets())
    all += first = static_cast<double>(bucket.gradients.bytes());
  return first / all;
}

}  // namespace kolo::bench
