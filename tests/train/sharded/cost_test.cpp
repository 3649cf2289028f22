// What ShardedDataParallel sends and keeps in memory, by the formulas of the ZeRO paper.
#include <c10/core/CPUAllocator.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/optim/adam.h>
#include <torch/version.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <map>
#include <memory>

#include "kolo/arena.hpp"
#include "kolo/train/distributed_data_parallel.hpp"
#include "kolo/train/sharded_data_parallel.hpp"
#include "train/support/models.hpp"
#include "train/support/ranks.hpp"

namespace kolo::test::sharded {
namespace {

constexpr std::int64_t kWidth = 128, kLayers = 40;
constexpr double kUnitBytes = 4.0 * kWidth * (kWidth + 1);
constexpr double kParameters = kLayers * kWidth * (kWidth + 1);

torch::nn::Sequential stack() {
  torch::nn::Sequential layers;
  for (std::int64_t i = 0; i < kLayers; ++i) layers->push_back(torch::nn::Linear(kWidth, kWidth));
  return layers;
}

struct StackImpl : torch::nn::Module {
  StackImpl() { layers = register_module("layers", stack()); }
  at::Tensor forward(const at::Tensor& x) { return layers->forward(x); }
  torch::nn::Sequential layers{nullptr};
};
TORCH_MODULE(Stack);

template <typename Model>
void train(Model& model, const std::vector<at::Tensor>& parameters, int steps) {
  torch::optim::Adam optimizer(parameters, 1e-4);
  for (int i = 0; i < steps; ++i) {
    optimizer.zero_grad();
    squares(model(numbers(2, kWidth, i)), numbers(2, kWidth, 900)).backward();
    optimizer.step();
  }
}

/// Bytes that all ranks send in one step. Over TCP, as what goes through shared memory is not counted.
double sent_a_step(int ranks, const std::function<std::function<void(int)>(Communicator&)>& make) {
  std::atomic<std::uint64_t> sent = 0;
  const auto over_tcp = [](Options& options, int) { options.transports = "tcp"; };
  const auto errors = run_ranks(
      ranks,
      [&](Communicator& communicator) {
        const auto step = make(communicator);
        step(2);  // the first ones order the buckets
        const std::uint64_t before = communicator.counters().bytes_sent;
        communicator.barrier();
        step(1);
        sent += communicator.counters().bytes_sent - before;
      },
      over_tcp);
  for (const auto& error : errors) EXPECT_EQ(message(error), "");
  return static_cast<double>(sent);
}

TEST(ShardedCost, BytesAreThoseOfTheFormulas) {
  for (const int ranks : {2, 4}) {
    const double all = 4 * kParameters * (ranks - 1);
    const double plain = sent_a_step(ranks, [](Communicator& communicator) {
      const auto model = std::make_shared<DistributedDataParallel<StackImpl>>(Stack(), communicator);
      return [model](int steps) { train(*model, model->parameters(), steps); };
    });
    EXPECT_NEAR(plain, 2 * all, 0.001 * all);
    for (const Shard shard : {Shard::optimizer_state, Shard::gradients, Shard::parameters}) {
      const double sent = sent_a_step(ranks, [&](Communicator& communicator) {
        const auto model = std::make_shared<ShardedDataParallel<StackImpl>>(
            Stack(), communicator, ShardedDataParallelOptions{.shard = shard});
        return [model](int steps) { train(*model, model->parameters(), steps); };
      });
      // The unit that forward used last is still there when backward begins.
      const double expected = shard == Shard::parameters ? 3 * all - kUnitBytes * (ranks - 1) : 2 * all;
      EXPECT_NEAR(sent, expected, 0.001 * all) << ranks << " ranks, shard " << static_cast<int>(shard);
    }
  }
}

/// Counts the bytes of libtorch's tensors, and looks at kolo's memory whenever one is made.
class CountingAllocator final : public c10::Allocator {
 public:
  explicit CountingAllocator(c10::Allocator& inner) : inner_(inner) {}
#if TORCH_VERSION_MAJOR >= 2
  c10::DataPtr allocate(std::size_t bytes) override {
    return count(bytes);
  }
  void copy_data(void* to, const void* from, std::size_t bytes) const override {
    default_copy_data(to, from, bytes);
  }
#else
  c10::DataPtr allocate(std::size_t bytes) const override {
    return count(bytes);
  }
#endif

  void reset_peak() {
    peak_ = now_ + arena();
  }
  double peak() const {
    return static_cast<double>(peak_);
  }

 private:
  struct Block {
    const CountingAllocator* allocator;
    std::size_t bytes;
    c10::DataPtr inner;
  };
  static std::size_t arena() {
    return SharedArena::instance().usage().block_bytes;
  }
  c10::DataPtr count(std::size_t bytes) const {
    c10::DataPtr inner = inner_.allocate(bytes);
    void* const data = inner.get();
    const std::size_t all = (now_ += bytes) + arena();
    std::size_t peak = peak_;
    while (all > peak && !peak_.compare_exchange_weak(peak, all)) {
    }
    return {data, new Block{this, bytes, std::move(inner)},
            [](void* block) {
              auto* const own = static_cast<Block*>(block);
              own->allocator->now_ -= own->bytes;
              delete own;
            },
            c10::kCPU};
  }

  c10::Allocator& inner_;
  mutable std::atomic<std::size_t> now_ = 0, peak_ = 0;
};

TEST(ShardedCost, MemoryIsThatOfTheFormulas) {
  constexpr int kRanks = 4;
  const double p = kParameters;
  const std::map<Shard, double> expected = {{Shard::optimizer_state, 8 * p + 8 * p / kRanks},
                                            {Shard::gradients, 4 * p + 12 * p / kRanks},
                                            {Shard::parameters, 16 * p / kRanks + 2 * kUnitBytes}};
  static CountingAllocator allocator(*c10::GetCPUAllocator());
  c10::SetCPUAllocator(&allocator, 1);
  for (const auto& [shard, bytes] : expected) {
    run_all(kRanks, [&, shard = shard](Communicator& communicator) {
      at::set_num_threads(1);
      ShardedDataParallel model(Stack(), communicator, {.shard = shard});
      train(model, model.parameters(), 1);
      communicator.barrier();
      if (communicator.rank() == 0) allocator.reset_peak();
      communicator.barrier();
      train(model, model.parameters(), 3);
      communicator.barrier();
    });
    const double found = allocator.peak() / kRanks;
    EXPECT_GT(found, 0.9 * bytes) << "shard " << static_cast<int>(shard);
    EXPECT_LT(found, 1.1 * bytes) << "shard " << static_cast<int>(shard);
  }
  c10::SetCPUAllocator(c10::GetDefaultCPUAllocator(), 1);
}

}  // namespace
}  // namespace kolo::test::sharded
