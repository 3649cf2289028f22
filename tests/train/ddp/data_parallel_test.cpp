// DistributedDataParallel trains N replicas as one model would train.
#include "train/support/models.hpp"

#include <gtest/gtest.h>
#include <torch/nn/modules/batchnorm.h>

#include <chrono>
#include <nlohmann/json.hpp>

#include "train/support/ranks.hpp"

namespace kolo::test::ddp {
namespace {

constexpr std::int64_t kBatch = 24;
constexpr int kSteps = 25;

class DataParallel : public testing::Test {
 protected:
  void SetUp() override { at::set_num_threads(1); }
};

/// The mean losses of a run in which the ranks share a global batch; all ranks' parameters are compared at
/// each step.
std::vector<double> loss_curve(int ranks, const DistributedDataParallelOptions& options,
                               bool undefine_gradients) {
  std::vector<double> curve(kSteps);
  run_all(ranks, [&](Communicator& communicator) {
    const int rank = communicator.rank();
    // Only rank 0's values count.
    DistributedDataParallel model(Chain(rank == 0 ? 0.0 : 50.0 + rank), communicator, options);
    torch::optim::SGD optimizer(model.parameters(), torch::optim::SGDOptions(0.2).momentum(0.9));
    for (int step = 0; step < kSteps; ++step) {
      const at::Tensor x = numbers(kBatch, 8, 100 + step), y = numbers(kBatch, 4, 200);
      const std::int64_t part = kBatch / ranks;
      const at::Tensor loss = squares(model(x.slice(0, rank * part, (rank + 1) * part)),
                                      y.slice(0, rank * part, (rank + 1) * part));
      if (undefine_gradients) {
        for (at::Tensor& parameter : model.parameters()) parameter.mutable_grad() = at::Tensor();
      } else {
        optimizer.zero_grad();
      }
      loss.backward();
      optimizer.step();
      std::vector<double> mean{loss.item().toDouble()};
      communicator.all_reduce(Buffer(mean), ReduceOp::average);
      if (rank == 0) curve[static_cast<std::size_t>(step)] = mean[0];
      EXPECT_TRUE(same_everywhere(communicator, bits(model.parameters())))
          << "rank " << rank << " step " << step;
    }
  });
  return curve;
}

TEST_F(DataParallel, FourRanksLearnAsOneDoes) {
  const std::vector<double> alone = loss_curve(1, {}, false);
  ASSERT_LT(alone.back(), alone.front());
  for (const int ranks : {2, 3, 4}) {
    for (const bool undefine : {false, true}) {
      const std::vector<double> together = loss_curve(ranks, small_buckets(), undefine);
      for (std::size_t i = 0; i < alone.size(); ++i) {
        EXPECT_NEAR(together[i], alone[i], 1e-5) << ranks << " ranks, step " << i;
      }
    }
  }
}

bool lives_in(const at::Tensor& gradient,
              const std::vector<DistributedDataParallelBase::BucketInfo>& buckets) {
  const auto* begin = static_cast<const std::byte*>(gradient.data_ptr());
  for (const auto& bucket : buckets) {
    const auto* memory = static_cast<const std::byte*>(bucket.gradients.data);
    if (begin >= memory && begin + gradient.nbytes() <= memory + bucket.gradients.bytes()) return true;
  }
  return false;
}

TEST_F(DataParallel, GradientsLiveInTheBuckets) {
  run_all(2, [](Communicator& communicator) {
    DistributedDataParallel model(Chain(0), communicator, small_buckets());
    torch::optim::SGD optimizer(model.parameters(), torch::optim::SGDOptions(0.1));
    const auto backward = [&] {
      squares(model(numbers(6, 8, communicator.rank())), numbers(6, 4, 9)).backward();
      for (const at::Tensor& parameter : model.parameters()) {
        EXPECT_TRUE(lives_in(parameter.grad(), model.buckets()));
        EXPECT_EQ(parameter.grad().sizes(), parameter.sizes());
      }
    };
    backward();
    std::vector<void*> places;
    for (const at::Tensor& parameter : model.parameters()) places.push_back(parameter.grad().data_ptr());

    for (at::Tensor& parameter : model.parameters()) parameter.grad().zero_();
    backward();
    optimizer.zero_grad();
    backward();
    for (at::Tensor& parameter : model.parameters()) parameter.mutable_grad() = at::Tensor();
    backward();
    // Somebody put another tensor there: the sum of it and the new gradient moves back into the bucket.
    for (at::Tensor& parameter : model.parameters()) parameter.mutable_grad() = at::zeros_like(parameter);
    backward();

    for (std::size_t i = 0; i < places.size(); ++i)
      EXPECT_EQ(model.parameters()[i].grad().data_ptr(), places[i]);
  });
}

TEST_F(DataParallel, AGradientThatSomebodyHoldsOutlivesItsBucket) {
  run_all(2, [](Communicator& communicator) {
    at::Tensor held;
    std::vector<float> values;
    {
      DistributedDataParallel model(Chain(0), communicator, small_buckets());
      squares(model(numbers(6, 8, 1)), numbers(6, 4, 9)).backward();
      held = model.parameters().front().grad();
      values.assign(held.data_ptr<float>(), held.data_ptr<float>() + held.numel());
    }
    EXPECT_TRUE(std::equal(values.begin(), values.end(), held.data_ptr<float>()));
  });
}

/// Uses its layers in another order than it registers them.
struct TwistedImpl : torch::nn::Module {
  TwistedImpl() : late(16, 4), early(8, 16) {
    register_module("late", late);
    register_module("early", early);
    fill(*this, 3);
  }
  at::Tensor forward(const at::Tensor& x) { return late(at::relu(early(x))); }

  torch::nn::Linear late, early;
};
TORCH_MODULE(Twisted);

TEST_F(DataParallel, BucketsAreRebuiltInTheOrderOfTheFirstBackward) {
  run_all(3, [](Communicator& communicator) {
    DistributedDataParallel model(Twisted(), communicator, small_buckets());
    EXPECT_EQ(model.buckets().front().parameters.front(), "early.bias");
    squares(model(numbers(6, 8, communicator.rank())), numbers(6, 4, 9)).backward();
    const std::vector<float> before(model->late->weight.grad().data_ptr<float>(),
                                    model->late->weight.grad().data_ptr<float>() + 64);
    EXPECT_TRUE(model.buckets().front().parameters.front().starts_with("late."))
        << "gradients of late come first";
    EXPECT_TRUE(lives_in(model->late->weight.grad(), model.buckets()));
    // What backward left is still there, and means the same in the new buckets.
    for (at::Tensor& parameter : model.parameters()) parameter.grad().zero_();
    squares(model(numbers(6, 8, communicator.rank())), numbers(6, 4, 9)).backward();
    EXPECT_TRUE(std::equal(before.begin(), before.end(), model->late->weight.grad().data_ptr<float>()));
  });
}

TEST_F(DataParallel, NoSyncAccumulates) {
  Chain reference(0);
  for (int rank = 0; rank < 3; ++rank) {
    for (int micro = 0; micro < 3; ++micro) {
      squares(reference->forward(numbers(6, 8, 10 * rank + micro)), numbers(6, 4, 9)).div(3).backward();
    }
  }
  run_all(3, [&](Communicator& communicator) {
    DistributedDataParallel model(Chain(0), communicator, small_buckets());
    const auto backward = [&](int micro) {
      squares(model(numbers(6, 8, 10 * communicator.rank() + micro)), numbers(6, 4, 9)).backward();
    };
    {
      const auto guard = model.no_sync();
      backward(0);
      backward(1);
      EXPECT_EQ(model.total().steps, 0u);
      EXPECT_FALSE(same_everywhere(communicator, bits({model->first->weight.grad()})));
    }
    backward(2);
    EXPECT_EQ(model.total().steps, 1u);
    for (std::size_t i = 0; i < model.parameters().size(); ++i) {
      EXPECT_TRUE(at::allclose(model.parameters()[i].grad(), reference->parameters()[i].grad(), 1e-4, 1e-6))
          << i;
    }
  });
}

TEST_F(DataParallel, AllReduceStartsBeforeBackwardEnds) {
  run_all(2, [](Communicator& communicator) {
    auto options = small_buckets();
    options.timeline = std::make_shared<Timeline>();
    DistributedDataParallel model(Chain(0), communicator, options);
    // Autograd computes the gradient of the first layer last.
    model->first->weight.register_hook([&](const at::Tensor& gradient) {
      const auto now = std::chrono::steady_clock::now();
      options.timeline->span("last gradient", "compute", now, now);
      return gradient;
    });
    squares(model(numbers(6, 8, communicator.rank())), numbers(6, 4, 9)).backward();
    std::string text = "[";
    text.append(options.timeline->chrome_events(communicator.rank())).push_back(']');
    const auto events = nlohmann::json::parse(text);
    double bucket = 0, last_gradient = 0, wait = 0;
    for (const auto& event : events) {
      if (event.value("ph", "") != "X") continue;
      if (event["name"] == "bucket 0") bucket = event["ts"];
      if (event["name"] == "last gradient") last_gradient = event["ts"];
      if (event["name"] == "wait") wait = event["ts"];
    }
    EXPECT_GT(bucket, 0);
    EXPECT_LT(bucket, last_gradient);
    EXPECT_LT(last_gradient, wait);
  });
}

TEST_F(DataParallel, CountsWhatItAverages) {
  run_all(2, [](Communicator& communicator) {
    DistributedDataParallel model(Chain(0), communicator, small_buckets());
    std::uint64_t bytes = 0;
    for (const at::Tensor& parameter : model.parameters()) bytes += parameter.nbytes();
    for (int step = 1; step <= 3; ++step) {
      const std::size_t buckets = model.buckets().size();
      squares(model(numbers(6, 8, step)), numbers(6, 4, 9)).backward();
      EXPECT_EQ(model.last_step().bytes, bytes);
      EXPECT_EQ(model.last_step().all_reduces, buckets);
      EXPECT_GE(buckets, 2u);
      EXPECT_EQ(model.total().bytes, bytes * static_cast<std::uint64_t>(step));
    }
  });
}

struct HalfImpl : torch::nn::Module {
  HalfImpl() { weight = register_parameter("weight", at::ones({100}, at::kHalf)); }
  at::Tensor forward(const at::Tensor& x) { return weight.to(at::kFloat) * x; }

  at::Tensor weight;
};
TORCH_MODULE(Half);

TEST_F(DataParallel, LargeGradientsOfFloat16HaveAFiniteAverage) {
  for (const int ranks : {2, 3, 4, 5}) {
    run_all(ranks, [](Communicator& communicator) {
      DistributedDataParallel model(Half(), communicator);
      model(at::full({100}, 40000.0)).sum().backward();  // whose sum is infinite in float16
      EXPECT_TRUE(model->weight.grad().eq(40000).all().item().toBool()) << model->weight.grad()[0];
    });
  }
}

struct NormalizedImpl : torch::nn::Module {
  NormalizedImpl() : norm(4), linear(4, 2) {
    register_module("norm", norm);
    register_module("linear", linear);
    linear->to(at::kDouble);
  }
  at::Tensor forward(const at::Tensor& x) { return linear(norm(x).to(at::kDouble)); }

  torch::nn::BatchNorm1d norm;
  torch::nn::Linear linear;
};
TORCH_MODULE(Normalized);

TEST_F(DataParallel, BuffersFollowRankZeroAndEachTypeHasItsBucket) {
  run_all(3, [](Communicator& communicator) {
    Normalized normalized;
    normalized->norm->running_mean.fill_(communicator.rank() + 1.0);
    DistributedDataParallel model(normalized, communicator);
    EXPECT_EQ(normalized->norm->running_mean[0].item().toDouble(), 1.0);
    const auto buckets = model.buckets();
    ASSERT_EQ(buckets.size(), 2u);
    EXPECT_NE(buckets[0].gradients.dtype, buckets[1].gradients.dtype);
    for (int step = 0; step < 2; ++step)
      model(numbers(6, 4, 5.0 * communicator.rank() + step)).sum().backward();
    EXPECT_TRUE(same_everywhere(communicator, bits(normalized->buffers())));
    model->eval();
    normalized->norm->running_mean.fill_(communicator.rank());
    model(numbers(6, 4, 0));
    EXPECT_EQ(normalized->norm->running_mean[0].item().toDouble(), communicator.rank());
  });
}

}  // namespace
}  // namespace kolo::test::ddp
