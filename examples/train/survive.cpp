// train_survive: training with DistributedDataParallel that goes on, whichever rank dies. The ranks save a
// checkpoint now and then. When a rank is lost, the survivors shrink() the communicator, load the last
// checkpoint and divide the data anew. Start it with
//
//     kolo run -n 4 --keep-going -- train_survive run
//
// and kill a rank while it runs. A job that is started again with the same folder goes on from it, too. The
// folder must be where every rank finds it.
#include "kolo/train/libtorch.hpp"

#include <ATen/Functions.h>
#include <ATen/Parallel.h>
#include <c10/core/GradMode.h>
#include <torch/nn/functional/loss.h>
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/linear.h>
#include <torch/optim/sgd.h>
#include <torch/utils.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>

#include "kolo/kolo.hpp"
#include "kolo/train/checkpoint.hpp"
#include "kolo/train/distributed_data_parallel.hpp"

namespace {

constexpr std::int64_t kFeatures = 16;
constexpr std::int64_t kSamples = 60'000;
constexpr std::int64_t kBatch = 600;  // of all ranks together
constexpr std::uint64_t kStepsPerCheckpoint = 50;

struct Data {
  at::Tensor x, y;
};

/// The same on every rank.
Data make_data() {
  torch::manual_seed(1);
  const at::Tensor x = at::randn({kSamples, kFeatures});
  return {x, x.sin().sum(1, true)};
}

/// This rank's part of a step's batch. It follows from the rank's number and from how many ranks there are
/// now.
Data part_of_batch(const Data& data, std::uint64_t step, const kolo::Communicator& ranks) {
  const std::int64_t start = static_cast<std::int64_t>(step) * kBatch % kSamples;
  const std::int64_t begin = start + kBatch * ranks.rank() / ranks.size();
  const std::int64_t end = start + kBatch * (ranks.rank() + 1) / ranks.size();
  return {data.x.slice(0, begin, end), data.y.slice(0, begin, end)};
}

torch::nn::Sequential make_net() {
  torch::manual_seed(2);
  return torch::nn::Sequential(torch::nn::Linear(kFeatures, 128), torch::nn::Tanh(),
                               torch::nn::Linear(128, 1));
}

/// Collective. Returns the step from which all ranks go on.
std::uint64_t restore(kolo::Checkpoint& checkpoint, const std::string& path, kolo::Communicator& ranks) {
  const std::uint64_t step = checkpoint.resume(path, ranks);
  if (ranks.rank() == 0)
    std::printf("%d ranks go on from step %llu\n", ranks.size(), static_cast<unsigned long long>(step));
  return step;
}

/// Collective. Trains from the last checkpoint to the end, and returns the loss over all data. Everything but
/// the communicator is made here and goes with a PeerLostError, since a failure may leave gradients,
/// parameters and the optimizer of two ranks a step apart.
double train(kolo::Communicator& ranks, const Data& data, const std::string& path, std::uint64_t steps) {
  kolo::DistributedDataParallel model(make_net(), ranks);
  torch::optim::SGD optimizer(model.parameters(), torch::optim::SGDOptions(0.01).momentum(0.9));
  kolo::Checkpoint checkpoint;
  checkpoint.add("model", model.model()).add("optimizer", optimizer);
  const auto loss_of = [&](const Data& some) {
    return torch::nn::functional::mse_loss(model(some.x), some.y);
  };
  for (std::uint64_t step = restore(checkpoint, path, ranks); step < steps;) {
    optimizer.zero_grad();
    const at::Tensor loss = loss_of(part_of_batch(data, step, ranks));
    loss.backward();  // throws PeerLostError on all ranks when one dies
    optimizer.step();
    if (++step % kStepsPerCheckpoint != 0 && step != steps) continue;
    checkpoint.save(path, step, ranks);  // all ranks call it; written while training goes on
    if (ranks.rank() == 0)
      std::printf("step %llu: loss %.6f\n", static_cast<unsigned long long>(step), loss.item<double>());
    std::fflush(stdout);
  }
  checkpoint.wait();
  const c10::NoGradGuard no_grad;
  return loss_of(data).item<double>();
}

void run(const std::string& path, std::uint64_t steps) {
  at::set_num_threads(1);
  const Data data = make_data();
  kolo::Communicator ranks = kolo::Communicator::create();
  std::printf("rank %d of %d is process %d\n", ranks.rank(), ranks.size(), static_cast<int>(::getpid()));
  std::fflush(stdout);
  for (;;) {
    try {
      const double loss = train(ranks, data, path, steps);
      std::printf("rank %d of %d ends at step %llu with loss %.9f\n", ranks.rank(), ranks.size(),
                  static_cast<unsigned long long>(steps), loss);
      return;
    } catch (const kolo::PeerLostError& error) {
      std::fprintf(stderr, "%s\n", error.what());
    }
    ranks = ranks.shrink();  // if more ranks die, the next collective throws, and the loop begins again
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2 || argc > 3) {
    std::fprintf(stderr, "usage: train_survive CHECKPOINT [STEPS]\n");
    return 2;
  }
  try {
    run(argv[1], argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 1000);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  return 0;
}
