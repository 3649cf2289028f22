// train_survive: training with DistributedDataParallel that goes on, whichever rank dies, from the step that
// the survivors have finished: run_elastic(). Start it with
//
//     kolo run --elastic 1:4 -- train_survive run
//
// and kill a rank while it runs: kolo starts it again, and it comes in. It saves a checkpoint now and then,
// from which a job that is started again with the same folder goes on; that must be where every rank finds
// it.
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
#include <optional>
#include <string>
#include <vector>

#include "kolo/kolo.hpp"
#include "kolo/train/data.hpp"
#include "kolo/train/distributed_data_parallel.hpp"
#include "kolo/train/elastic.hpp"

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

torch::nn::Sequential make_net() {
  torch::manual_seed(2);
  return torch::nn::Sequential(torch::nn::Linear(kFeatures, 128), torch::nn::Tanh(),
                               torch::nn::Linear(128, 1));
}

void run(const std::string& path, std::uint64_t steps) {
  at::set_num_threads(1);
  const Data data = make_data();
  kolo::Communicator ranks = kolo::Communicator::create();
  std::printf("rank %d of %d is process %d\n", ranks.rank(), ranks.size(), static_cast<int>(::getpid()));
  std::fflush(stdout);
  torch::nn::Sequential net = make_net();
  torch::optim::SGD optimizer(net->parameters(), torch::optim::SGDOptions(0.01).momentum(0.9));
  std::optional<kolo::DistributedDataParallel<torch::nn::SequentialImpl>> model;
  std::optional<kolo::DistributedSampler> sampler;
  const auto loss_of = [&](const Data& some) {
    return torch::nn::functional::mse_loss((*model)(some.x), some.y);
  };
  std::uint64_t began_at = 0;
  const kolo::ElasticOptions options{
      .folder = path, .save_every = kStepsPerCheckpoint, .on_change = [&](const kolo::ElasticChange& change) {
        began_at = change.step;
        if (change.rank == 0)
          std::printf("%d ranks go on from step %llu: %s\n", change.size,
                      static_cast<unsigned long long>(change.step),
                      !change.why.empty()      ? change.why.c_str()
                      : change.size_before > 0 ? "newcomers came"
                                               : change.origin.c_str());
      }};
  // All ranks, for each group of ranks that trains.
  const auto setup = [&](kolo::Communicator& group, kolo::Checkpoint& state) {
    model.emplace(net.ptr(), group);
    sampler.emplace(kSamples, group.rank(), group.size());
    state.add("model", *model).add("optimizer", optimizer).add("sampler", *sampler);
  };
  double last_loss = 0;
  const auto step = [&](kolo::Communicator& group, std::uint64_t finished) {
    if (group.rank() == 0 && finished % kStepsPerCheckpoint == 0 && finished > began_at)
      std::printf("step %llu: loss %.6f\n", static_cast<unsigned long long>(finished), last_loss);
    std::fflush(stdout);
    if (finished == steps) return false;
    const auto share = static_cast<std::size_t>(kBatch / group.size());
    auto batch = sampler->next(share);
    if (!batch.has_value()) {
      sampler->set_epoch(sampler->epoch() + 1);
      batch = sampler->next(share);
    }
    const at::Tensor rows = at::tensor(std::vector<std::int64_t>(batch->begin(), batch->end()));
    optimizer.zero_grad();
    const at::Tensor loss = loss_of({data.x.index_select(0, rows), data.y.index_select(0, rows)});
    loss.backward();  // throws PeerLostError on all ranks when one dies: this step is made again without it
    optimizer.step();
    last_loss = loss.item<double>();
    return true;
  };
  const std::uint64_t finished = kolo::run_elastic(ranks, options, setup, step);
  const c10::NoGradGuard no_grad;
  std::printf("rank %d of %d ends at step %llu with loss %.9f\n", ranks.rank(), ranks.size(),
              static_cast<unsigned long long>(finished), loss_of(data).item<double>());
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
