#include "train/train_step.hpp"

#include <ATen/Parallel.h>
#include <torch/optim/sgd.h>
#include <torch/utils.h>

#include <sys/resource.h>

#include <chrono>
#include <stdexcept>
#include <utility>
#include <vector>

#include "kolo/train/autocast.hpp"
#include "kolo/train/distributed_data_parallel.hpp"
#include "train/models.hpp"
#include "train/statistics.hpp"

namespace kolo::bench {
namespace {

using Clock = std::chrono::steady_clock;
constexpr int kWarmUpSteps = 5;

/// A workload as a model whose forward() gives the loss.
class TrainedWorkload : public torch::nn::Module {
 public:
  TrainedWorkload(Workload workload, bool in_bfloat16)
      : workload_(std::move(workload)), in_bfloat16_(in_bfloat16) {
    register_module("net", workload_.module);
  }
  at::Tensor forward() {
    const Autocast autocast(in_bfloat16_);
    return workload_.loss();
  }

 private:
  Workload workload_;
  bool in_bfloat16_;
};

double peak_bytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return 1024.0 * static_cast<double>(usage.ru_maxrss);
}

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

TrainResult train(const std::string& model, std::int64_t batch, int steps, bool in_bfloat16,
                  Communicator communicator) {
  at::set_num_threads(1);
  torch::manual_seed(1 + communicator.rank());
  DistributedDataParallel parallel(
      std::make_shared<TrainedWorkload>(make_workload(model, batch), in_bfloat16), communicator);
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
  std::vector<double> peak{peak_bytes()};
  communicator.all_reduce(Buffer(peak), ReduceOp::max);
  if (spread(parameters, communicator) != 0) throw std::runtime_error("the ranks' parameters differ");
  return {communicator.size(), median(times), mean(times), peak[0]};
}

}  // namespace kolo::bench
