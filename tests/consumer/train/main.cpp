// A program outside the project: two ranks as threads average the gradient of a linear layer.
#include <kolo/train/distributed_data_parallel.hpp>

#include <torch/nn/modules/linear.h>
#include <torch/types.h>

#include <cmath>
#include <cstdio>
#include <exception>
#include <kolo/kolo.hpp>
#include <memory>
#include <thread>
#include <vector>

namespace {

constexpr int kRanks = 2;

// The gradient of y = w x by w is x, which is 1 on rank 0 and 2 on rank 1. NaN on any error.
double averaged_gradient(const std::shared_ptr<kolo::Store>& store, int rank) try {
  torch::nn::Linear layer(torch::nn::LinearOptions(1, 1).bias(false));
  kolo::DistributedDataParallel model(layer, kolo::Communicator::create(store, rank, kRanks));
  model.forward(torch::full({1, 1}, rank + 1.0)).sum().backward();
  return layer->weight.grad().item<double>();
} catch (const std::exception& error) {
  std::printf("rank %d: %s\n", rank, error.what());
  return std::nan("");
}

}  // namespace

int main() {
  const std::shared_ptr<kolo::Store> store = kolo::make_memory_store();
  std::vector<double> gradients(kRanks);
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < kRanks; ++rank) {
    ranks.emplace_back([&, rank] { gradients[rank] = averaged_gradient(store, rank); });
  }
  for (std::thread& rank : ranks) rank.join();
  for (const double gradient : gradients) std::printf("average of 1 and 2: %g\n", gradient);
  return gradients == std::vector<double>(kRanks, 1.5) ? 0 : 1;
}
