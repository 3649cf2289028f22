// SyncBatchNorm: what one process does with the batches of all ranks.
#include "kolo/train/sync_batch_norm.hpp"

#include <gtest/gtest.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/serialize.h>

#include <mutex>
#include <numeric>
#include <sstream>
#include <vector>

#include "kolo/error.hpp"
#include "train/support/models.hpp"
#include "train/support/normed.hpp"
#include "train/support/ranks.hpp"

namespace kolo::test::nn {
namespace {

using torch::nn::BatchNormOptions;

constexpr std::int64_t kFeatures = 3;

class SyncNorm : public testing::Test {
 protected:
  void SetUp() override { at::set_num_threads(1); }
};

/// Samples of all ranks, [n, kFeatures, ...], far from zero so that cancellation shows.
at::Tensor samples(std::int64_t count, std::vector<std::int64_t> rest, double seed) {
  std::vector<std::int64_t> sizes{count, kFeatures};
  sizes.insert(sizes.end(), rest.begin(), rest.end());
  const std::int64_t elements =
      std::accumulate(sizes.begin(), sizes.end(), std::int64_t{1}, std::multiplies<>());
  return at::sin(at::arange(elements, at::kDouble).mul(0.7391).add(seed)).add(50).reshape(sizes);
}

struct Shape {
  std::vector<std::int64_t> batches;  ///< of each rank
  std::vector<std::int64_t> rest;     ///< dimensions behind the features
};

/// Trains a few steps; the loss gives every output a weight of its own.
template <typename Norm>
struct Trained {
  std::vector<at::Tensor> outputs, below;
  at::Tensor weight, bias, mean, variance;

  void step(Norm& norm, const at::Tensor& input, const at::Tensor& weights) {
    const at::Tensor x = input.clone().set_requires_grad(true);
    const at::Tensor y = norm->forward(x);
    (y * y * weights).sum().backward();
    outputs.push_back(y.detach());
    below.push_back(x.grad());
  }
  void finish(Norm& norm) {
    weight = norm->weight.defined() ? norm->weight.grad() : at::Tensor();
    bias = norm->bias.defined() ? norm->bias.grad() : at::Tensor();
    mean = norm->running_mean;
    variance = norm->running_var;
  }
};

void prepare(torch::nn::Module& norm) {
  norm.to(at::kDouble);
  const c10::NoGradGuard no_grad;
  for (at::Tensor& parameter : norm.parameters()) parameter.add_(at::arange(kFeatures, at::kDouble).mul(0.3));
}

bool close(const at::Tensor& a, const at::Tensor& b) {
  if (!a.defined() || !b.defined()) return a.defined() == b.defined();
  return at::allclose(a, b, 1e-10, 1e-10);
}

template <typename Reference>
void expect_as_one_process(const Shape& shape, const BatchNormOptions& options) {
  constexpr int kSteps = 3;
  const std::int64_t total = std::accumulate(shape.batches.begin(), shape.batches.end(), std::int64_t{0});
  Reference whole(options);
  prepare(*whole);
  Trained<Reference> expected;
  for (int step = 0; step < kSteps; ++step)
    expected.step(whole, samples(total, shape.rest, step), samples(total, shape.rest, 9 + step));
  expected.finish(whole);

  run_all(static_cast<int>(shape.batches.size()), [&](Communicator& communicator) {
    const auto rank = static_cast<std::size_t>(communicator.rank());
    const std::int64_t begin =
        std::accumulate(shape.batches.begin(), shape.batches.begin() + communicator.rank(), std::int64_t{0});
    const auto own = [&](const at::Tensor& all) { return all.slice(0, begin, begin + shape.batches[rank]); };
    SyncBatchNorm norm(options, communicator);
    prepare(*norm);
    Trained<SyncBatchNorm> found;
    for (int step = 0; step < kSteps; ++step)
      found.step(norm, own(samples(total, shape.rest, step)), own(samples(total, shape.rest, 9 + step)));
    found.finish(norm);
    for (std::size_t step = 0; step < kSteps; ++step) {
      EXPECT_TRUE(close(found.outputs[step], own(expected.outputs[step]))) << "step " << step;
      EXPECT_TRUE(close(found.below[step], own(expected.below[step]))) << "step " << step;
    }
    for (const at::Tensor& gradient : {found.weight, found.bias}) {
      if (gradient.defined())
        communicator.all_reduce(Buffer(gradient.data_ptr<double>(), kFeatures, DType::float64),
                                ReduceOp::sum);
    }
    EXPECT_TRUE(close(found.weight, expected.weight));
    EXPECT_TRUE(close(found.bias, expected.bias));
    EXPECT_TRUE(close(found.mean, expected.mean));
    EXPECT_TRUE(close(found.variance, expected.variance));
    if (found.mean.defined()) {
      EXPECT_TRUE(same_everywhere(communicator, bits({found.mean, found.variance})));
    }
    norm->eval();
    whole->eval();
    const at::Tensor x = samples(4, shape.rest, 3);
    EXPECT_TRUE(close(norm(x), whole(x)));
  });
}

TEST_F(SyncNorm, IsThatOfOneProcessWithTheWholeBatch) {
  const BatchNormOptions plain(kFeatures);
  expect_as_one_process<torch::nn::BatchNorm2d>({{4, 4, 4}, {2, 3}}, plain);
  expect_as_one_process<torch::nn::BatchNorm2d>({{3, 1, 5, 2}, {2, 2}}, plain);  // uneven
  expect_as_one_process<torch::nn::BatchNorm1d>({{1, 1, 1}, {}}, plain);         // one value a rank
  expect_as_one_process<torch::nn::BatchNorm1d>({{5, 0, 2}, {7}}, plain);        // a rank without samples
  expect_as_one_process<torch::nn::BatchNorm3d>({{2, 3}, {2, 1, 2}}, plain);
  expect_as_one_process<torch::nn::BatchNorm2d>({{6}, {2, 2}}, plain);
}

TEST_F(SyncNorm, TakesTheOptionsOfBatchNorm) {
  const Shape shape{{3, 2}, {2, 2}};
  expect_as_one_process<torch::nn::BatchNorm2d>(shape, BatchNormOptions(kFeatures).eps(0.1).momentum(0.3));
  expect_as_one_process<torch::nn::BatchNorm2d>(shape, BatchNormOptions(kFeatures).momentum(c10::nullopt));
  expect_as_one_process<torch::nn::BatchNorm2d>(shape, BatchNormOptions(kFeatures).affine(false));
  expect_as_one_process<torch::nn::BatchNorm2d>(shape,
                                                BatchNormOptions(kFeatures).track_running_stats(false));
}

TEST_F(SyncNorm, TrainsUnderDistributedDataParallelAsOneProcess) {
  std::vector<at::Tensor> trained[2];
  for (const int ranks : {1, 4}) {
    run_all(ranks, [&](Communicator& communicator) {
      Normed net(4, 2, communicator);
      net->to(at::kDouble);
      DistributedDataParallel model(net, communicator, small_buckets());
      torch::optim::SGD optimizer(model.parameters(), torch::optim::SGDOptions(0.1).momentum(0.9));
      const std::int64_t own = 8 / ranks;
      for (int step = 0; step < 10; ++step) {
        const auto share = [&](const at::Tensor& all) {
          return all.slice(0, communicator.rank() * own, (communicator.rank() + 1) * own).to(at::kDouble);
        };
        optimizer.zero_grad();
        squares(model(share(numbers(8, 4, step))), share(numbers(8, 2, 5))).backward();
        optimizer.step();
      }
      EXPECT_TRUE(same_everywhere(communicator, bits(model.parameters())));
      if (communicator.rank() == 0) trained[ranks == 1 ? 0 : 1] = model.parameters();
    });
  }
  for (std::size_t i = 0; i < trained[0].size(); ++i) EXPECT_TRUE(close(trained[0][i], trained[1][i])) << i;
}

TEST_F(SyncNorm, LoadsWhatBatchNormHasSaved) {
  run_all(1, [](Communicator& communicator) {
    torch::nn::BatchNorm2d saved{BatchNormOptions(kFeatures)};
    fill(*saved, 4);
    saved(samples(3, {2, 2}, 1).to(at::kFloat));
    std::stringstream file;
    torch::save(saved, file);
    SyncBatchNorm loaded(BatchNormOptions(kFeatures), communicator);
    torch::load(loaded, file);
    EXPECT_TRUE(at::equal(loaded->weight, saved->weight));
    EXPECT_TRUE(at::equal(loaded->running_var, saved->running_var));
  });
}

TEST_F(SyncNorm, HalvesAreComputedInFloat32) {
  run_all(2, [](Communicator& communicator) {
    SyncBatchNorm norm(BatchNormOptions(kFeatures), communicator);
    const at::Tensor x = samples(4, {2}, communicator.rank()).to(at::kBFloat16);
    const at::Tensor y = norm(x);
    EXPECT_EQ(y.scalar_type(), at::kBFloat16);
    SyncBatchNorm again(BatchNormOptions(kFeatures), communicator);
    EXPECT_TRUE(at::equal(y, again(x.to(at::kFloat)).to(at::kBFloat16)));
  });
}

TEST_F(SyncNorm, ModelsInSixteenBitsGetTheValuesOfBatchNorm) {
  for (const auto type : {at::kBFloat16, at::kHalf}) {
    const double ulp = type == at::kHalf ? 0x1p-10 : 0x1p-7;
    const auto close = [ulp](const at::Tensor& a, const at::Tensor& b) {
      return at::allclose(a.to(at::kDouble), b.to(at::kDouble), ulp, ulp);
    };
    const auto rounded = [type](torch::nn::Module& norm) {
      fill(norm, 1);
      norm.to(type);
    };
    const auto all = [type](int step) { return samples(6, {}, step).sub(50).to(type).to(at::kFloat); };
    torch::nn::BatchNorm1d whole{BatchNormOptions(kFeatures)};  // computes in float32, of the same numbers
    rounded(*whole);
    whole->to(at::kFloat);
    Trained<torch::nn::BatchNorm1d> expected;
    for (int step = 0; step < 3; ++step) expected.step(whole, all(step), at::ones({6, kFeatures}));
    expected.finish(whole);
    run_all(2, [&](Communicator& communicator) {
      const auto own = [&](const at::Tensor& x) {
        return x.slice(0, 3 * communicator.rank(), 3 * communicator.rank() + 3);
      };
      SyncBatchNorm norm(BatchNormOptions(kFeatures), communicator);
      rounded(*norm);
      Trained<SyncBatchNorm> found;
      for (int step = 0; step < 3; ++step)
        found.step(norm, own(all(step)).to(type), at::ones({3, kFeatures}, type));
      found.finish(norm);
      for (std::size_t step = 0; step < 3; ++step) {
        EXPECT_EQ(found.outputs[step].scalar_type(), type);
        EXPECT_TRUE(close(found.outputs[step], own(expected.outputs[step])));
      }
      EXPECT_EQ(found.weight.scalar_type(), type);
      EXPECT_EQ(found.mean.scalar_type(), type);
      EXPECT_TRUE(close(found.mean, expected.mean)) << found.mean << expected.mean;
      EXPECT_TRUE(close(found.variance, expected.variance));
      norm->eval();
      EXPECT_EQ(norm(all(3).to(type)).scalar_type(), type);
      torch::nn::BatchNorm1d same{BatchNormOptions(kFeatures)};
      same->running_mean.copy_(norm->running_mean);
      same->running_var.copy_(norm->running_var);
      rounded(*same);
      same->to(at::kFloat);
      same->eval();
      EXPECT_TRUE(close(norm(all(3).to(type)), same(all(3))));
    });
  }
}

TEST_F(SyncNorm, RefusesWhatItCannotDo) {
  run_all(2, [](Communicator& communicator) {
    SyncBatchNorm norm(BatchNormOptions(kFeatures), communicator);
    EXPECT_THROW(norm(at::ones({kFeatures})), InvalidArgumentError);
    EXPECT_THROW(norm(at::ones({2, kFeatures + 1})), InvalidArgumentError);
    EXPECT_THROW(norm(at::ones({communicator.rank(), kFeatures})), InvalidArgumentError)
        << "one value of all ranks";
    const at::Tensor x = at::rand({4, kFeatures}).set_requires_grad(true);
    const at::Tensor loss = norm(x).square().sum();
    EXPECT_THROW(loss.backward({}, {}, true), InvalidArgumentError);
    EXPECT_THROW(SyncBatchNorm(BatchNormOptions(0), communicator), InvalidArgumentError);
    EXPECT_THROW(SyncBatchNorm(BatchNormOptions(3), Communicator()), InvalidArgumentError);
  });
}

}  // namespace
}  // namespace kolo::test::nn
