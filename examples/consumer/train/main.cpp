// Each rank has samples of its own of y = 3x; all ranks learn the 3 from all of them.
#include <kolo/train/distributed_data_parallel.hpp>

#include <torch/nn/functional/loss.h>
#include <torch/nn/modules/linear.h>
#include <torch/optim/sgd.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <kolo/kolo.hpp>

int main() try {
  kolo::Communicator communicator = kolo::Communicator::create();
  torch::manual_seed(1 + static_cast<std::uint64_t>(communicator.rank()));

  torch::nn::Linear layer(torch::nn::LinearOptions(1, 1).bias(false));
  kolo::DistributedDataParallel model(layer, communicator);  // all ranks begin with rank 0's parameters
  torch::optim::SGD optimizer(model.parameters(), 0.1);
  for (int step = 0; step < 200; ++step) {
    const at::Tensor x = torch::rand({16, 1});
    optimizer.zero_grad();
    torch::nn::functional::mse_loss(model(x), 3 * x).backward();  // gradients are averages over all ranks
    optimizer.step();
  }

  const double learned = layer->weight.item<double>();
  if (communicator.rank() == 0) std::printf("%d ranks learned %.3f\n", communicator.size(), learned);
  return std::abs(learned - 3) < 0.01 ? 0 : 1;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
