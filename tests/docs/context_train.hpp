// Names that the pages about training take for granted: a network, data, and the objects of other blocks. A
// block's own declarations hide them.
#pragma once

#include <torch/torch.h>

#include <cmath>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "kolo/kolo.hpp"
#include "kolo/train/averages.hpp"
#include "kolo/train/checkpoint.hpp"
#include "kolo/train/data.hpp"
#include "kolo/train/distributed_data_parallel.hpp"
#include "kolo/train/elastic.hpp"
#include "kolo/train/hooks.hpp"
#include "kolo/train/local.hpp"
#include "kolo/train/optim.hpp"
#include "kolo/train/pipeline_parallel.hpp"
#include "kolo/train/precision.hpp"
#include "kolo/train/sharded_data_parallel.hpp"
#include "kolo/train/training_schedule.hpp"
#include "methods/gossip_averager.hpp"
#include "methods/one_bit_adam.hpp"
#include "methods/parameter_server.hpp"

namespace page {  // programs to copy have a Net of their own
struct NetImpl : torch::nn::Module {
  at::Tensor forward(at::Tensor x) { return x; }
};
TORCH_MODULE(Net);
}  // namespace page
using page::Net;
using page::NetImpl;
/// docs/training/hybrid.md: a layer whose parts ranks share.
struct BlockImpl : NetImpl {
  BlockImpl(const kolo::DistributedDataParallelOptions& options, const kolo::Communicator& group);
};
TORCH_MODULE(Block);

using Pairs = std::vector<std::pair<at::Tensor, at::Tensor>>;
/// The batches of an epoch, or of the samples at some indices.
struct Batches : Pairs {
  Pairs operator()(const Pairs& data, const std::vector<std::int64_t>& indices) const;
};

extern kolo::Communicator communicator;
extern Pairs data;
extern Batches batches;
extern at::Tensor batch, first, images, labels, micro_batch, second, targets, tensor, words;
extern Net net;
extern torch::optim::SGD optimizer;
extern kolo::DistributedDataParallel<NetImpl> model;
extern kolo::DistributedDataParallelOptions options;
extern std::uint64_t step, steps;
extern int epoch, epochs, stages;

at::Tensor cross_entropy(const at::Tensor& output, const at::Tensor& labels);
at::Tensor loss(const at::Tensor& output, const at::Tensor& labels);
at::Tensor part_of(const at::Tensor& whole, int part);
bool is_replicated(const at::Tensor& parameter);
double momentum(std::uint64_t step);
double rate(std::uint64_t step);
double schedule(std::uint64_t step);
std::optional<kolo::Batch> next_global_batch();
std::unique_ptr<torch::optim::Optimizer> sgd(const std::vector<at::Tensor>& parameters);
void evaluate(Net net);
void set_rate(torch::optim::Optimizer& optimizer, double rate);
