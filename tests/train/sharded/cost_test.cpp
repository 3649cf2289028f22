// What ShardedDataParallel sends and keeps in memory, by the formulas of the ZeRO paper.
#include <c10/core/CPUAllocator.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/optim/adam.h>
#include <torch/version.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <memory>
#include <new>
#include <optional>

#include "kolo/arena.hpp"
#include "kolo/train/distributed_data_parallel.hpp"
#include "kolo/train/sharded_data_parallel.hpp"
#include "train/sharded/adapted.hpp"
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
  at::Tensor forward(const at::Tensor& x) { return layers->forward(x.to(parameters()[0].scalar_type())); }
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
      for (const std::optional<at::ScalarType> type : {std::optional<at::ScalarType>(), {at::kBFloat16}}) {
        const double sent = sent_a_step(ranks, [&](Communicator& communicator) {
          const auto model = std::make_shared<ShardedDataParallel<StackImpl>>(
              Stack(), communicator, ShardedDataParallelOptions{.shard = shard, .gather_type = type});
          return [model](int steps) { train(*model, model->parameters(), steps); };
        });
        // The unit that forward used last is still there when backward begins.
        const double gathered = shard == Shard::parameters ? 2 * all - kUnitBytes * (ranks - 1) : all;
        EXPECT_NEAR(sent, all + gathered / (type ? 2 : 1), 0.001 * all)
            << ranks << " ranks, shard " << static_cast<int>(shard);
      }
    }
  }
}

TEST(ShardedCost, FrozenParametersAreGatheredAndNotAveraged) {
  const Adapted net(1, kWidth, kLayers);
  double all = 0, trained = 0;
  for (const at::Tensor& parameter : net->parameters()) {
    all += static_cast<double>(parameter.nbytes());
    if (parameter.requires_grad()) trained += static_cast<double>(parameter.nbytes());
  }
  const double last = (all - kUnitBytes) / kLayers;
  for (const Shard shard : {Shard::gradients, Shard::parameters}) {
    const double sent = sent_a_step(2, [&](Communicator& communicator) {
      const auto model = std::make_shared<ShardedDataParallel<AdaptedImpl>>(
          Adapted(1, kWidth, kLayers), communicator, ShardedDataParallelOptions{.shard = shard});
      return [model](int steps) { train(*model, model->parameters(), steps); };
    });
    const double expected = shard == Shard::parameters ? 2 * all - last + trained : 2 * trained;
    EXPECT_NEAR(sent, expected, 0.001 * all) << "shard " << static_cast<int>(shard);
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

  c10::DeleterFnPtr raw_deleter() const override {
    return give_back;
  }
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
  /// Before the memory, as some operations keep only its pointer.
  static constexpr std::size_t kHeader = 64;
  static_assert(sizeof(Block) <= kHeader);
  static void give_back(void* data) {
    auto* const block = reinterpret_cast<Block*>(static_cast<std::byte*>(data) - kHeader);
    block->allocator->now_ -= block->bytes;
    const c10::DataPtr memory = std::move(block->inner);
    block->~Block();
  }
  static std::size_t arena() {
    return SharedArena::instance().usage().block_bytes;
  }
  c10::DataPtr count(std::size_t bytes) const {
    c10::DataPtr inner = inner_.allocate(kHeader + bytes);
    auto* const start = static_cast<std::byte*>(inner.get());
    new (start) Block{this, bytes, std::move(inner)};
    const std::size_t all = (now_ += bytes) + arena();
    std::size_t peak = peak_;
    while (all > peak && !peak_.compare_exchange_weak(peak, all)) {
    }
    return {start + kHeader, start + kHeader, give_back, c10::kCPU};
  }

  c10::Allocator& inner_;
  mutable std::atomic<std::size_t> now_ = 0, peak_ = 0;
};

constexpr int kRanks = 4;

/// Bytes of a rank at the peak of a step.
template <typename Make>
double peak_of_training(const Make& make, const ShardedDataParallelOptions& options) {
  static CountingAllocator allocator(*c10::GetCPUAllocator());
  c10::SetCPUAllocator(&allocator, 1);
  run_all(kRanks, [&](Communicator& communicator) {
    at::set_num_threads(1);
    ShardedDataParallel model(make(), communicator, options);
    train(model, model.parameters(), 1);
    communicator.barrier();
    if (communicator.rank() == 0) allocator.reset_peak();
    communicator.barrier();
    train(model, model.parameters(), 3);
    communicator.barrier();
  });
  c10::SetCPUAllocator(c10::GetDefaultCPUAllocator(), 1);
  return allocator.peak() / kRanks;
}

TEST(ShardedCost, MemoryIsThatOfTheFormulas) {
  struct Row {
    Shard shard;
    double bytes, with_gather_type;
  };
  const double p = kParameters;
  for (const auto& [shard, bytes, in_16_bits] :
       {Row{Shard::optimizer_state, 8 * p + 8 * p / kRanks, 6 * p + 12 * p / kRanks},
        Row{Shard::gradients, 4 * p + 12 * p / kRanks, 2 * p + 16 * p / kRanks},
        Row{Shard::parameters, 16 * p / kRanks + 2 * kUnitBytes, 16 * p / kRanks + kUnitBytes}}) {
    for (const bool is_cast : {false, true}) {
      ShardedDataParallelOptions options{.shard = shard};
      if (is_cast) options.gather_type = at::kBFloat16;
      const double expected = is_cast ? in_16_bits : bytes;
      const double found = peak_of_training([] { return Stack(); }, options);
      EXPECT_GT(found, 0.9 * expected) << "shard " << static_cast<int>(shard) << ", cast " << is_cast;
      EXPECT_LT(found, 1.1 * expected) << "shard " << static_cast<int>(shard) << ", cast " << is_cast;
    }
  }
}

TEST(ShardedCost, FrozenParametersTakeMemoryAsShards) {
  constexpr std::int64_t kRank = 2;
  const double frozen = kUnitBytes * (kLayers + 1);
  const double trained = 4.0 * 2 * kRank * kWidth * kLayers;
  const double found = peak_of_training([&] { return Adapted(1, kWidth, kLayers, kRank); }, {});
  const double expected = (frozen + 4 * trained) / kRanks + 2 * kUnitBytes;
  EXPECT_GT(found, 0.9 * expected);
  EXPECT_LT(found, 1.1 * expected);
}

}  // namespace
}  // namespace kolo::test::sharded
