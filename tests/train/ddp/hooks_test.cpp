// Gradient hooks and wire formats under DistributedDataParallel: what a hook is given, and what becomes of
// its errors.
#include "train/support/models.hpp"

#include <gtest/gtest.h>
#include <torch/optim/adam.h>

#include <atomic>
#include <cmath>
#include <limits>
#include <mutex>
#include <set>

#include "kolo/train/hooks.hpp"
#include "kolo/train/optim.hpp"
#include "train/support/ranks.hpp"

namespace kolo::test::ddp {
namespace {

/// Averages as DistributedDataParallel does without a hook, and remembers what it was asked.
class Recorder : public GradientHook {
 public:
  std::string describe() const override { return "recorder " + setting; }
  void check(std::span<const GradientPart> parameters) const override {
    for (const GradientPart& part : parameters) {
      if (part.name == refused) throw InvalidArgumentError("the recorder refuses " + part.name, {});
    }
  }
  void check(const OptimizerTraits& optimizer) const override {
    if (optimizer.has_momentum) throw InvalidArgumentError(optimizer.name + " has momentum", {});
  }
  void average(const GradientBucket& bucket, Communicator& communicator) override {
    indices.push_back(bucket.index);
    loss_scale = bucket.loss_scale;
    std::uint64_t end = 0;
    for (const GradientPart& part : bucket.parts) {
      EXPECT_EQ(part.offset, end) << part.name;
      end += part.count;
      names.insert(part.name);
    }
    EXPECT_EQ(end, bucket.gradients.size());
    shape = bucket.parts[0].shape;
    if (fails_at == static_cast<int>(indices.size()) - 1) {
      if (!is_standard) throw 42;
      throw std::runtime_error("the recorder is full");
    }
    communicator.all_reduce(Buffer(bucket.gradients), ReduceOp::average);
  }
  void end_step(bool keep) override { kept.push_back(keep); }

  std::string setting = "plain";
  std::string refused;
  int fails_at = -1;                ///< the bucket, counted from the first step on
  bool is_standard = true;          ///< what it throws then
  std::vector<std::int64_t> shape;  ///< of the last bucket's first parameter
  std::vector<std::size_t> indices;
  std::set<std::string> names;
  std::vector<bool> kept;
  float loss_scale = 0;
};

class Hooks : public testing::Test {
 protected:
  void SetUp() override { at::set_num_threads(1); }
};

TEST_F(Hooks, SeeEachBucketOfEachStepInItsOrder) {
  constexpr int kSteps = 4;
  std::vector<std::uint8_t> plain, hooked;
  for (const bool with_hook : {false, true}) {
    run_all(3, [&](Communicator& communicator) {
      const auto recorder = std::make_shared<Recorder>();
      auto options = small_buckets();
      if (with_hook) options.hook = recorder;
      DistributedDataParallel model(Chain(communicator.rank()), communicator, options);
      torch::optim::SGD optimizer(model.parameters(), 0.1);
      model.check(optimizer);
      model.set_loss_scale(4);
      std::size_t buckets = 0;
      for (int step = 0; step < kSteps; ++step) {
        buckets += model.buckets().size();
        optimizer.zero_grad();
        squares(model(numbers(6, 8, 10 * step + communicator.rank())), numbers(6, 4, 3)).backward();
        optimizer.step();
        EXPECT_TRUE(model.averages_are_finite());
      }
      EXPECT_TRUE(same_everywhere(communicator, bits(model.parameters())));
      if (communicator.rank() == 0) (with_hook ? hooked : plain) = bits(model.parameters());
      if (!with_hook) return;
      EXPECT_EQ(recorder->indices.size(), buckets);
      for (std::size_t i = 0, expected = 0; i < recorder->indices.size(); ++i, ++expected) {
        if (recorder->indices[i] == 0) expected = 0;
        EXPECT_EQ(recorder->indices[i], expected);
      }
      EXPECT_EQ(recorder->names.size(), model->named_parameters().size());
      EXPECT_EQ(recorder->kept, std::vector<bool>(kSteps, true));
      EXPECT_EQ(recorder->loss_scale, 4);
      EXPECT_GT(model.last_step().all_reduces, 1u);
    });
  }
  EXPECT_EQ(plain, hooked) << "the same averages, bit for bit";
}

TEST_F(Hooks, OfEveryKindTrainReplicasThatStayEqual) {
  for (const std::string& name : gradient_hook_names()) {
    if (!make_gradient_hook(name)->keeps_ranks_equal()) continue;
    run_all(3, [&](Communicator& communicator) {
      DistributedDataParallelOptions
          options;  // one bucket of each matrix or two, so that there is something to save
      options.first_bucket_bytes = options.bucket_bytes = 4096;
      options.check_parameters_every = 1;
      options.hook = make_gradient_hook(name == "top_k" ? "top_k:ratio=0.1:momentum=0" : name);
      DistributedDataParallel model(Chain(communicator.rank(), 64), communicator, options);
      torch::optim::SGD optimizer(model.parameters(), 0.05);
      model.check(optimizer);
      double first = 0, last = 0;
      for (int step = 0; step < 30; ++step) {
        optimizer.zero_grad();
        const at::Tensor loss = squares(model(numbers(6, 8, communicator.rank())), numbers(6, 4, 3));
        loss.backward();
        optimizer.step();
        (step == 0 ? first : last) = loss.item<double>();
      }
      EXPECT_TRUE(same_everywhere(communicator, bits(model.parameters()))) << name;
      EXPECT_LT(last, 0.9 * first) << name;
    });
  }
}

TEST_F(Hooks, ForgetAStepWhoseAverageIsNotFinite) {
  run_all(2, [](Communicator& communicator) {
    const auto recorder = std::make_shared<Recorder>();
    auto options = small_buckets();
    options.hook = recorder;
    DistributedDataParallel model(Chain(0), communicator, options);
    for (int step = 0; step < 3; ++step) {
      at::Tensor x = numbers(6, 8, communicator.rank());
      if (step == 1 && communicator.rank() == 1) x = x / 0.0;
      model(x).sum().backward();
      EXPECT_EQ(model.averages_are_finite(), step != 1);
      for (at::Tensor& parameter : model.parameters()) parameter.mutable_grad().zero_();
    }
    EXPECT_EQ(recorder->kept, (std::vector<bool>{true, false, true}));
  });
}

TEST_F(Hooks, AreGivenFloat32AloneAndTheRestCountsToo) {
  run_all(2, [](Communicator& communicator) {
    const auto recorder = std::make_shared<Recorder>();
    auto options = small_buckets();
    options.hook = recorder;
    struct MixedImpl : torch::nn::Module {
      MixedImpl() {
        single = register_parameter("single", at::ones({5}));
        twice = register_parameter("twice", at::ones({5}, at::kDouble));
      }
      at::Tensor forward(double factor) { return (single * 2).sum() + (twice * factor).sum(); }
      at::Tensor single, twice;
    };
    DistributedDataParallel model(std::make_shared<MixedImpl>(), communicator, options);
    model(communicator.rank() + 1.0).backward();
    EXPECT_EQ(recorder->names, std::set<std::string>{"single"});
    EXPECT_EQ(model->twice.grad()[0].item<double>(), 1.5);
    EXPECT_TRUE(model.averages_are_finite());
    model(communicator.rank() == 0 ? std::numeric_limits<double>::infinity() : 1.0).backward();
    EXPECT_FALSE(model.averages_are_finite());
    EXPECT_EQ(recorder->kept, (std::vector<bool>{true, false}));
  });
}

/// The sum over its elements of the weight times an outer product, which is its gradient.
struct OuterImpl : torch::nn::Module {
  explicit OuterImpl(const at::Tensor& initial) { weight = register_parameter("weight", initial); }
  at::Tensor forward(const at::Tensor& product) { return (weight * product).sum(); }

  at::Tensor weight;
};
TORCH_MODULE(Outer);

TEST_F(Hooks, SeeShapesInTheOrderOfMemory) {
  const at::Tensor product = numbers(32, 1, 1) * numbers(1, 48, 2);
  for (const at::Tensor& layout : {at::zeros({32, 48}), at::zeros({48, 32}).t()}) {
    run_all(2, [&](Communicator& communicator) {
      DistributedDataParallelOptions options;
      options.hook = make_gradient_hook("power_sgd:rank=1:start_after_steps=0");
      Outer outer(layout.clone());
      EXPECT_EQ(outer->weight.strides(), layout.strides());
      DistributedDataParallel model(outer, communicator, options);
      for (int step = 0; step < 3; ++step) {
        model.model().zero_grad();
        model(product).backward();
        EXPECT_TRUE(at::allclose(outer->weight.grad(), product, 1e-4, 1e-4)) << layout.strides();
      }
    });
  }
  run_all(1, [](Communicator& communicator) {
    const auto recorder = std::make_shared<Recorder>();
    DistributedDataParallelOptions options;
    options.hook = recorder;
    const auto shape_of = [&](const at::Tensor& weight) {
      DistributedDataParallel model(Outer(weight), communicator, options);
      model(at::ones({})).backward();
      return recorder->shape;
    };
    using Shape = std::vector<std::int64_t>;
    EXPECT_EQ(shape_of(at::zeros({2, 3, 4})), (Shape{2, 3, 4}));
    EXPECT_EQ(shape_of(at::zeros({2, 3, 4}).permute({2, 0, 1})), (Shape{2, 3, 4}));
    EXPECT_EQ(shape_of(at::zeros({2, 3, 4, 5}).contiguous(at::MemoryFormat::ChannelsLast)),
              (Shape{2, 4, 5, 3}));
    EXPECT_EQ(shape_of(at::zeros({})), Shape{});
  });
}

TEST_F(Hooks, ThatFailOnOneRankEndTheStepOnAllRanks) {
  for (const bool is_standard : {true, false}) {
    const auto errors = run_ranks(3, [&](Communicator& communicator) {
      const auto recorder = std::make_shared<Recorder>();
      recorder->is_standard = is_standard;
      if (communicator.rank() == 1) recorder->fails_at = 1;
      auto options = small_buckets();
      options.hook = recorder;
      DistributedDataParallel model(Chain(0), communicator, options);
      model(numbers(6, 8, 1)).sum().backward();
    });
    const std::string what = is_standard ? "the recorder is full" : "an exception that is no std::exception";
    if (is_standard) {
      EXPECT_EQ(message(errors[1]), what);
    } else {
      EXPECT_THROW(std::rethrow_exception(errors[1]), int);
    }
    for (const std::size_t rank : {0u, 2u}) {
      EXPECT_NE(message(errors[rank]).find("rank 1 aborted: " + what), std::string::npos)
          << message(errors[rank]);
    }
  }
}
TEST_F(Hooks, ThatDifferAreRefusedOnAllRanks) {
  const auto errors = run_ranks(3, [](Communicator& communicator) {
    const auto recorder = std::make_shared<Recorder>();
    if (communicator.rank() == 2) recorder->setting = "odd";
    auto options = small_buckets();
    options.hook = recorder;
    DistributedDataParallel model(Chain(0), communicator, options);
  });
  for (const auto& error : errors) {
    const std::string text = message(error);
    EXPECT_NE(text.find("rank 2 has the options"), std::string::npos) << text;
    EXPECT_NE(text.find("hook recorder odd where rank 0 has"), std::string::npos) << text;
    EXPECT_THROW(std::rethrow_exception(error), MismatchError);
  }
}

TEST_F(Hooks, ThatDoNotSuitAreRefused) {
  run_all(1, [](Communicator& communicator) {
    const auto recorder = std::make_shared<Recorder>();
    auto options = small_buckets();
    options.hook = recorder;
    recorder->refused = "second.bias";
    EXPECT_THROW(DistributedDataParallel(Chain(0), communicator, options), InvalidArgumentError);
    recorder->refused.clear();
    options.find_unused_parameters = true;
    EXPECT_THROW(DistributedDataParallel(Chain(0), communicator, options), InvalidArgumentError);
    options.find_unused_parameters = false;
    options.wire = Wire::int8;
    EXPECT_THROW(DistributedDataParallel(Chain(0), communicator, options), InvalidArgumentError);
    options.wire.reset();

    DistributedDataParallel model(Chain(0), communicator, options);
    EXPECT_THROW(model.set_loss_scale(0), InvalidArgumentError);
    EXPECT_THROW(model.set_loss_scale(std::nanf("")), InvalidArgumentError);
    model.check(torch::optim::SGD(model.parameters(), 0.1));
    EXPECT_THROW(model.check(torch::optim::Adam(model.parameters())), InvalidArgumentError);
  });
}

TEST_F(Hooks, TraitsAreThoseOfAnyGroup) {
  const Chain chain(0);
  torch::optim::SGD optimizer(chain->first->parameters(), torch::optim::SGDOptions(0.1));
  EXPECT_EQ(traits_of(optimizer).name, "SGD");
  EXPECT_FALSE(traits_of(optimizer).has_momentum);
  optimizer.add_param_group(torch::optim::OptimizerParamGroup(
      chain->second->parameters(), std::make_unique<torch::optim::SGDOptions>(
                                       torch::optim::SGDOptions(0.1).momentum(0.9).weight_decay(1))));
  EXPECT_TRUE(traits_of(optimizer).has_momentum);
  EXPECT_TRUE(traits_of(optimizer).has_weight_decay);
}

TEST_F(Hooks, NoSyncPassesAreAveragedOnce) {
  run_all(2, [](Communicator& communicator) {
    const auto recorder = std::make_shared<Recorder>();
    auto options = small_buckets();
    options.hook = recorder;
    DistributedDataParallel model(Chain(0), communicator, options);
    {
      const auto guard = model.no_sync();
      model(numbers(6, 8, communicator.rank())).sum().backward();
    }
    EXPECT_TRUE(recorder->kept.empty());
    model(numbers(6, 8, communicator.rank() + 5)).sum().backward();
    EXPECT_EQ(recorder->kept.size(), 1u);
    Chain alone(0);
    for (const int seed : {0, 1, 5, 6}) (alone->forward(numbers(6, 8, seed)).sum() / 2).backward();
    EXPECT_TRUE(at::allclose(model->first->weight.grad(), alone->first->weight.grad(), 1e-4, 1e-6));
  });
}

TEST_F(Hooks, AWireFormatSendsFewerBytesAndAllRanksTheSame) {
  run_all(3, [](Communicator& communicator) {
    std::vector<std::uint64_t> sent;
    for (const Wire wire : {Wire::native, Wire::bfloat16, Wire::int8}) {
      DistributedDataParallelOptions options;
      options.wire = wire;
      DistributedDataParallel model(Chain(0, 1024), communicator, options);
      model(numbers(6, 8, communicator.rank())).sum().backward();
      communicator.barrier();
      const std::uint64_t before = communicator.counters().bytes_sent;
      model(numbers(6, 8, communicator.rank())).sum().backward();
      // Of all ranks: which of them sends more is the algorithm's affair.
      std::vector<std::uint64_t> bytes{communicator.counters().bytes_sent - before};
      communicator.all_reduce(Buffer(bytes));
      sent.push_back(bytes[0]);
      EXPECT_TRUE(same_everywhere(communicator, bits({model->second->weight.grad()})));
    }
    EXPECT_LT(static_cast<double>(sent[1]), 0.6 * static_cast<double>(sent[0]));
    EXPECT_LT(static_cast<double>(sent[2]), 0.35 * static_cast<double>(sent[0]));
  });
}

}  // namespace
}  // namespace kolo::test::ddp
