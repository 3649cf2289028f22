#include "train/train_step.hpp"

#include <ATen/Parallel.h>
#include <torch/nn/modules/container/modulelist.h>
#include <torch/optim/adam.h>
#include <torch/optim/sgd.h>
#include <torch/utils.h>

#include <chrono>
#include <memory>
#include <stdexcept>
#include <utility>
#include <vector>

#include "kolo/train/autocast.hpp"
#include "kolo/train/distributed_data_parallel.hpp"
#include "kolo/train/sharded_data_parallel.hpp"
#include "train/models.hpp"
#include "train/resident_memory.hpp"
#include "train/statistics.hpp"

namespace kolo::bench {
namespace {

using Clock = std::chrono::steady_clock;
constexpr int kWarmUpSteps = 5;
constexpr int kWatchedSteps = 2;  ///< for their memory; they are not timed

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

void require_equal(const std::vector<at::Tensor>& parameters, Communicator& communicator) {
  double sum = 0;
  for (const at::Tensor& parameter : parameters) sum += parameter.detach().sum(at::kDouble).item<double>();
  std::vector<double> largest{sum}, smallest{sum};
  communicator.all_reduce(Buffer(largest), ReduceOp::max);
  communicator.all_reduce(Buffer(smallest), ReduceOp::min);
  if (largest != smallest) throw std::runtime_error("the ranks' parameters differ");
}

/// A net's children, and in place of a list of layers the layers.
std::vector<std::string> units_of(const torch::nn::Module& net, const std::string& prefix) {
  std::vector<std::string> units;
  for (const auto& child : net.named_children()) {
    const bool is_list = child.value()->as<torch::nn::ModuleListImpl>() != nullptr;
    const auto inner =
        is_list ? units_of(*child.value(), prefix + child.key() + '.') : std::vector{prefix + child.key()};
    units.insert(units.end(), inner.begin(), inner.end());
  }
  return units;
}

std::unique_ptr<torch::optim::Optimizer> make_optimizer(const TrainOptions& options,
                                                        const std::vector<at::Tensor>& parameters) {
  if (options.uses_adam)
    return std::make_unique<torch::optim::Adam>(parameters, torch::optim::AdamOptions(0.0001));
  return std::make_unique<torch::optim::SGD>(parameters, torch::optim::SGDOptions(0.001).momentum(0.9));
}

}  // namespace

TrainResult train(const TrainOptions& options, Communicator communicator) {
  at::set_num_threads(1);
  torch::manual_seed(1 + communicator.rank());
  const double first_bytes = resident_bytes();
  const auto module =
      std::make_shared<TrainedWorkload>(make_workload(options.model, options.batch), options.in_bfloat16);
  TrainResult result;
  for (const at::Tensor& parameter : module->parameters()) result.parameters += parameter.numel();
  std::unique_ptr<DistributedDataParallel<TrainedWorkload>> plain;
  std::unique_ptr<ShardedDataParallel<TrainedWorkload>> sharded;
  if (options.shard) {
    const auto net = module->named_children()["net"];
    sharded = std::make_unique<ShardedDataParallel<TrainedWorkload>>(
        module, communicator,
        ShardedDataParallelOptions{.shard = *options.shard, .units = units_of(*net, "net.")});
  } else {
    plain = std::make_unique<DistributedDataParallel<TrainedWorkload>>(module, communicator);
  }
  const auto parameters = plain ? plain->parameters() : sharded->parameters();
  const auto optimizer = make_optimizer(options, parameters);
  const auto step = [&] {
    communicator.barrier();
    const auto begin = Clock::now();
    (plain ? (*plain)() : (*sharded)()).backward();
    optimizer->step();
    // In place, as libtorch 1.13 does it: gradients live in buckets.
    for (const at::Tensor& parameter : parameters) parameter.mutable_grad().zero_();
    return std::chrono::duration<double>(Clock::now() - begin).count();
  };
  for (int i = 0; i < kWarmUpSteps; ++i) step();
  const std::uint64_t sent_before = communicator.counters().bytes_sent;
  std::vector<double> times;
  for (int i = 0; i < options.steps; ++i) times.push_back(step());
  const auto sent = static_cast<double>(communicator.counters().bytes_sent - sent_before);
  std::vector<double> most{sent / options.steps, first_bytes, 0};
  {
    const ResidentPeak peak;
    for (int i = 0; i < kWatchedSteps; ++i) step();
    most[2] = peak.bytes();
  }
  communicator.all_reduce(Buffer(times), ReduceOp::max);
  communicator.all_reduce(Buffer(most), ReduceOp::max);
  if (sharded) {
    const auto whole = sharded->whole();
    require_equal(module->parameters(), communicator);
  } else {
    require_equal(parameters, communicator);
  }
  result.ranks = communicator.size();
  result.step = median(times);
  result.step_mean = mean(times);
  result.sent_bytes = most[0];
  result.first_bytes = most[1];
  result.peak_bytes = most[2];
  return result;
}

}  // namespace kolo::bench
