// bench_train train: steps that are computed for real, as pytorch_ddp.py does them with PyTorch.
#include <ATen/Parallel.h>
#include <torch/nn/modules/container/modulelist.h>
#include <torch/optim/adam.h>
#include <torch/optim/sgd.h>
#include <torch/utils.h>

#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "kolo/kolo.hpp"
#include "kolo/train/distributed_data_parallel.hpp"
#include "kolo/train/precision.hpp"
#include "kolo/train/sharded_data_parallel.hpp"
#include "train/commands.hpp"
#include "train/json.hpp"
#include "train/models.hpp"
#include "train/resident_memory.hpp"
#include "train/timing.hpp"

namespace kolo::bench {
namespace {

struct TrainOptions {
  std::string model = "mlp";
  std::int64_t batch = 64;
  int steps = 20;                   ///< without the first ones
  bool in_bfloat16 = false;         ///< under kolo::Autocast
  bool uses_adam = false;           ///< in place of SGD with momentum
  std::optional<Shard> shard = {};  ///< nullopt: DistributedDataParallel
  bool sums = true;                 ///< false: each rank keeps its own gradients, in the same buckets
};

/// Seconds a step (forward, backward, optimizer), of the slowest rank. No barrier comes between steps.
struct TrainResult {
  int ranks = 0;
  std::int64_t parameters = 0;
  double step = 0;         ///< median
  double step_mean = 0;    ///< the time of all steps over their number
  double sent_bytes = 0;   ///< a step, of the rank that sends most
  double first_bytes = 0;  ///< largest resident memory of a rank before it has the model
  double peak_bytes = 0;   ///< largest resident memory of a rank during steps
};

constexpr int kWarmUpSteps = 5;
constexpr int kWatchedSteps = 2;  ///< untimed steps that measure the memory

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

/// Leaves each rank its own gradients: what a step costs without sums.
class NoSums final : public GradientHook {
 public:
  std::string describe() const override { return "no sums"; }
  bool keeps_ranks_equal() const override { return false; }
  void average(const GradientBucket&, Communicator&) override {}
  void end_step(bool) override {}
};

void require_equal(const std::vector<at::Tensor>& parameters, Communicator& communicator) {
  double sum = 0;
  for (const at::Tensor& parameter : parameters) sum += parameter.detach().sum(at::kDouble).item<double>();
  std::vector<double> largest{sum}, smallest{sum};
  communicator.all_reduce(Buffer(largest), ReduceOp::max);
  communicator.all_reduce(Buffer(smallest), ReduceOp::min);
  if (largest != smallest) throw std::runtime_error("the ranks' parameters differ");
}

/// A net's children; a list of layers counts as its layers.
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

/// Collective. One thread a rank; the first steps do not count. Throws std::runtime_error where the ranks'
/// parameters differ at the end.
TrainResult train(const TrainOptions& options, Communicator communicator) {
  at::set_num_threads(1);
  torch::manual_seed(1 + communicator.rank());
  const double first_bytes = resident_bytes();
  const auto module =
      std::make_shared<TrainedWorkload>(workloads().at(options.model)(options.batch), options.in_bfloat16);
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
    DistributedDataParallelOptions plain_options;
    if (!options.sums) plain_options.hook = std::make_shared<NoSums>();
    plain = std::make_unique<DistributedDataParallel<TrainedWorkload>>(module, communicator, plain_options);
  }
  const auto parameters = plain ? plain->parameters() : sharded->parameters();
  const auto optimizer = make_optimizer(options, parameters);
  const auto step = [&] {
    const auto begin = Clock::now();
    (plain ? (*plain)() : (*sharded)()).backward();
    optimizer->step();
    // In place, because gradients are views of buckets.
    for (const at::Tensor& parameter : parameters) parameter.mutable_grad().zero_();
    return seconds_since(begin);
  };
  for (int i = 0; i < kWarmUpSteps; ++i) step();
  const std::uint64_t sent_before = communicator.counters().bytes_sent;
  communicator.barrier();
  const auto begin = Clock::now();
  std::vector<double> times;
  for (int i = 0; i < options.steps; ++i) times.push_back(step());
  const double all_steps = seconds_since(begin);
  const auto sent = static_cast<double>(communicator.counters().bytes_sent - sent_before);
  std::vector<double> most{sent / options.steps, first_bytes, 0, all_steps / options.steps};
  {
    const ResidentPeak peak;
    for (int i = 0; i < kWatchedSteps; ++i) step();
    most[2] = peak.bytes();
  }
  communicator.all_reduce(Buffer(times), ReduceOp::max);
  communicator.all_reduce(Buffer(most), ReduceOp::max);
  if (!options.sums) {
    // Each rank has a model of its own.
  } else if (sharded) {
    const auto whole = sharded->whole();
    require_equal(module->parameters(), communicator);
  } else {
    require_equal(parameters, communicator);
  }
  result.ranks = communicator.size();
  result.step = median(times);
  result.step_mean = most[3];
  result.sent_bytes = most[0];
  result.first_bytes = most[1];
  result.peak_bytes = most[2];
  return result;
}

void print(const TrainOptions& options, const TrainResult& result) {
  fmt::print("computed: {}, batch {} a rank, {} ranks: {:.2f} ms a step (median; mean {:.2f} ms)\n",
             options.model, options.batch, result.ranks, 1e3 * result.step, 1e3 * result.step_mean);
  fmt::print(
      "          {:.1f} MB of parameters; resident {:.0f} MB, {:.0f} MB of them before the model; {:.1f} MB "
      "sent a step\n",
      4e-6 * static_cast<double>(result.parameters), 1e-6 * result.peak_bytes, 1e-6 * result.first_bytes,
      1e-6 * result.sent_bytes);
}

}  // namespace

void add_train(CLI::App& app, bool speaks) {
  struct Settings {
    TrainOptions train;
    std::string shard;
    JsonOutput output;
  };
  const auto settings = std::make_shared<Settings>();
  TrainOptions& train = settings->train;
  CLI::App* command =
      app.add_subcommand("train", "Computes for real on all ranks of the job, one thread each");
  command->add_option("--model", train.model, "The network")->check(CLI::IsMember(workloads()));
  command->add_option("--batch", train.batch, "Samples a step and rank")->check(CLI::PositiveNumber);
  command->add_option("--steps", train.steps, "Steps that count")->check(CLI::PositiveNumber);
  command->add_flag("--bfloat16", train.in_bfloat16, "Products in bfloat16, weights in float32");
  command->add_flag("--adam", train.uses_adam, "Adam in place of SGD with momentum");
  command
      ->add_option("--shard", settings->shard,
                   "Each rank keeps a part of these; empty: DistributedDataParallel")
      ->check(CLI::IsMember(shard_names()));
  command->add_flag("!--no-sums", train.sums, "Each rank keeps its own gradients: what computing costs alone")
      ->excludes("--shard");
  settings->output.add_to(*command);
  command->callback([settings, speaks] {
    TrainOptions options = settings->train;
    if (!settings->shard.empty()) options.shard = parse_shard(settings->shard);
    if (speaks) settings->output.open();
    const TrainResult result = kolo::bench::train(options, Communicator::create());
    if (!speaks) return;
    const bool is_printed = settings->output.write({{"kind", "computed"},
                                                    {"model", options.model},
                                                    {"batch", options.batch},
                                                    {"ranks", result.ranks},
                                                    {"step_s", result.step},
                                                    {"step_mean_s", result.step_mean},
                                                    {"parameters", result.parameters},
                                                    {"sent_bytes", result.sent_bytes},
                                                    {"first_bytes", result.first_bytes},
                                                    {"peak_bytes", result.peak_bytes}});
    if (!is_printed) print(options, result);
  });
}

}  // namespace kolo::bench
