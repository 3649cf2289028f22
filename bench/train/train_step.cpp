#include "train/train_step.hpp"

#include <ATen/Parallel.h>
#include <torch/optim/sgd.h>
#include <torch/utils.h>

#include <chrono>
#include <stdexcept>
#include <utility>
#include <vector>

#include "train/models.hpp"
#include "train/statistics.hpp"

namespace kolo::bench {
namespace {

using Clock = std::chrono::steady_clock;
constexpr int kWarmUpSteps = 5;

/// A workload as a model whose forward() gives the loss.
class TrainedWorkload : public torch::nn::Module {
 public:
  explicit TrainedWorkload(Workload workload) : workload_(std::move(workload)) {
    register_module("net", workload_.module);
  }
  at::Tensor forward() { return workload_.loss(); }

 private:
  Workload workload_;
};

/// Largest less smallest sum of the parameters' values over the ranks: 0 where their bits are equal.
double spread(const std::vector<at::Tensor>& parameters, Communicator& communicator) {
  double sum = 0;
  for (const at::Tensor& parameter : parameters) sum += parameter.detach().sum(at::kDouble).item<double>();
  std::vector<double> largest{sum}, smallest{sum};
  communicator.all_reduce(Buffer(largest), ReduceOp::max);
  communicator.all_reduce(Buffer(smallest), ReduceOp::min);
  return largest[0] - smallest[0];
}

}  // namespace

TrainResult train(const std::string& model, std::int64_t batch, int steps, Communicator communicator,
                  const DistributedDataParallelOptions& options) {
  at::set_num_threads(1);
  torch::manual_seed(1 + communicator.rank());
  DistributedDataParallel parallel(std::make_shared<TrainedWorkload>(make_workload(model, batch)),
                                   communicator, options);
  const auto parameters = parallel.parameters();
  torch::optim::SGD optimizer(parameters, torch::optim::SGDOptions(0.001).momentum(0.9));
  std::vector<double> times;
  for (int step = 0; step < kWarmUpSteps + steps; ++step) {
    communicator.barrier();
    const auto begin = Clock::now();
    parallel().backward();
    optimizer.step();
    // In place, as libtorch 1.13 does it: gradients live in buckets.
    for (const at::Tensor& parameter : parameters) parameter.mutable_grad().zero_();
    if (step >= kWarmUpSteps) times.push_back(std::chrono::duration<double>(Clock::now() - begin).count());
  }
  communicator.all_reduce(Buffer(times), ReduceOp::max);
  if (spread(parameters, communicator) != 0) throw std::runtime_error("the ranks' parameters differ");
  return {communicator.size(), median(times), mean(times)};
}

}  // namespace kolo::bench
