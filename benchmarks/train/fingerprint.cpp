// bench_train fingerprint: the bits that some steps end with, each way in which gradients travel, to compare
// two builds on one machine.
#include <ATen/Parallel.h>
#include <fmt/format.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>
#include <torch/optim/sgd.h>
#include <torch/torch.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "kolo/kolo.hpp"
#include "kolo/train/distributed_data_parallel.hpp"
#include "kolo/train/hooks.hpp"
#include "kolo/train/sharded_data_parallel.hpp"
#include "train/commands.hpp"

namespace kolo::bench {
namespace {

using Tensors = std::vector<at::Tensor>;

/// Some units, a table, and more elements than a block of any wire format.
struct Net : torch::nn::Module {
  explicit Net(bool is_sparse)
      : table(torch::nn::EmbeddingOptions(50, 40).sparse(is_sparse)), hidden(40, 64), last(64, 8) {
    register_module("table", table);
    register_module("hidden", hidden);
    register_module("last", last);
  }
  at::Tensor forward(const at::Tensor& words) { return last(at::tanh(hidden(table(words)))); }

  torch::nn::Embedding table;
  torch::nn::Linear hidden, last;
};

std::shared_ptr<Net> make_net(bool is_sparse = false) {
  torch::manual_seed(1);
  return std::make_shared<Net>(is_sparse);
}

/// Loss of a step's batch, another one on each rank.
template <typename Model>
at::Tensor loss_of(Model& model, int step, int rank) {
  torch::manual_seed(1000 + 100 * step + rank);
  const at::Tensor words = at::randint(50, {12}, at::kLong), wanted = at::randn({12, 8});
  return (model(words) - wanted).square().mean();
}

std::uint64_t hash_of(const Tensors& tensors) {
  std::uint64_t hash = 0xcbf29ce484222325u;  // FNV-1a
  for (const at::Tensor& tensor : tensors) {
    const at::Tensor values = tensor.detach().contiguous();
    const auto* const bytes = static_cast<const unsigned char*>(values.data_ptr());
    for (std::size_t i = 0; i < values.nbytes(); ++i) hash = (hash ^ bytes[i]) * 0x100000001b3u;
  }
  return hash;
}

/// Under join() a rank has the fewer batches, the higher its number.
std::uint64_t train(DistributedDataParallelOptions options, Communicator& communicator, int steps,
                    bool is_sparse = false, bool joins = false) {
  // Small buckets, so that there are several.
  options.first_bucket_bytes = 1 << 10;
  options.bucket_bytes = 8 << 10;
  const bool steps_itself = static_cast<bool>(options.overlap_forward);
  DistributedDataParallel model(make_net(is_sparse), communicator, std::move(options));
  Tensors dense = model.parameters(), tables;
  if (is_sparse) {
    tables = {dense.front()};
    dense.erase(dense.begin());
  }
  torch::optim::SGD optimizer(dense, torch::optim::SGDOptions(0.1).momentum(0.9));
  torch::optim::SGD plain(is_sparse ? tables : dense, torch::optim::SGDOptions(0.1));
  const auto move = [&] {
    optimizer.step();
    if (is_sparse) plain.step();
  };
  std::optional<DistributedDataParallelBase::Join> join;
  if (joins) join.emplace(model, JoinMode::weigh_by_samples);
  const int rank = communicator.rank();
  for (int i = 0; i < steps - (joins ? rank : 0); ++i) {
    if (join) join->step(12 + rank);
    for (const at::Tensor& parameter : model.parameters()) parameter.mutable_grad() = at::Tensor();
    loss_of(model, i, rank).backward();
    if (!steps_itself) move();
  }
  if (join) join->finish(move);
  return hash_of(model.parameters());
}

std::uint64_t train_shards(Shard shard, Communicator& communicator, int steps) {
  ShardedDataParallel model(make_net(), communicator, {.shard = shard});
  torch::optim::SGD optimizer(model.parameters(), torch::optim::SGDOptions(0.1).momentum(0.9));
  for (int i = 0; i < steps; ++i) {
    optimizer.zero_grad();
    loss_of(model, i, communicator.rank()).backward();
    optimizer.step();
  }
  const auto whole = model.whole();
  return hash_of(model.model().parameters());
}

using Way = std::pair<std::string, std::function<std::uint64_t(Communicator&, int)>>;

std::vector<Way> all_ways() {
  std::vector<Way> ways;
  const auto add = [&](const std::string& name, const DistributedDataParallelOptions& options,
                       bool is_sparse = false, bool joins = false) {
    ways.emplace_back(name, [=](Communicator& communicator, int steps) {
      return train(options, communicator, steps, is_sparse, joins);
    });
  };
  add("plain", {});
  for (int i = 0; i < kWireCount; ++i) {
    const auto wire = static_cast<Wire>(i);
    add("wire " + std::string(name_of(wire)), {.wire = wire});
  }
  for (const std::string& name : gradient_hook_names()) {
    ways.emplace_back("hook " + name, [name](Communicator& communicator, int steps) {
      return train({.hook = make_gradient_hook(name)}, communicator, steps);  // a hook keeps a state
    });
  }
  add("sparse all_reduce", {.sparse_method = SparseMethod::all_reduce}, true);
  add("sparse all_gather", {.sparse_method = SparseMethod::all_gather}, true);
  add("join", {}, false, true);
  add("overlap", {.overlap_forward = [](const Tensors& parameters) {
        return std::make_unique<torch::optim::SGD>(parameters, torch::optim::SGDOptions(0.1).momentum(0.9));
      }});
  for (const std::string& name : shard_names()) {
    ways.emplace_back("shards " + name, [name](Communicator& communicator, int steps) {
      return train_shards(parse_shard(name), communicator, steps);
    });
  }
  return ways;
}

}  // namespace

void add_fingerprint(CLI::App& app, bool speaks) {
  const auto steps = std::make_shared<int>(8);
  CLI::App* command = app.add_subcommand(
      "fingerprint", "Hashes the parameters after some steps, for each way in which gradients travel");
  command->add_option("--steps", *steps, "Steps of each")->check(CLI::PositiveNumber);
  command->callback([steps, speaks] {
    at::set_num_threads(1);
    // Measured costs would choose other algorithms, which round in another order, each time.
    Communicator communicator = Communicator::create({.measure_costs = false});
    for (const auto& [name, run] : all_ways()) {
      const std::uint64_t hash = run(communicator, *steps);
      std::vector<std::uint64_t> all(static_cast<std::size_t>(communicator.size()));
      communicator.all_gather(ConstBuffer(&hash, 1, DType::uint64), Buffer(all));
      std::string text;
      for (const std::uint64_t one : all) {
        if (text.empty() || one != all.front())
          text += fmt::format(" {:016x}", one);  // one where all are alike
      }
      if (speaks) fmt::print("{:<24}{}\n", name, text);
    }
  });
}

}  // namespace kolo::bench
