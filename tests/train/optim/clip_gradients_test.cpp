// Clipping by the global norm: the formula, sparse gradients, tied weights, the same bits everywhere.
#include "kolo/train/optim.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "kolo/error.hpp"
#include "train/support/models.hpp"

namespace kolo::test::optim {
namespace {

at::Tensor with_gradient(const at::Tensor& gradient) {
  at::Tensor parameter = at::zeros(gradient.sizes(), gradient.scalar_type()).set_requires_grad(true);
  parameter.mutable_grad() = gradient;
  return parameter;
}

TEST(ClipGradients, ScalesAllByOneFactor) {
  const at::Tensor a = with_gradient(at::tensor({3.0f, 0.0f})),
                   b = with_gradient(at::tensor({4.0}, at::kDouble));
  EXPECT_DOUBLE_EQ(clip_gradients({a, b, at::ones(2)}, 2.5), 5);
  EXPECT_TRUE(at::allclose(a.grad(), at::tensor({1.5f, 0.0f})));
  EXPECT_TRUE(at::allclose(b.grad(), at::tensor({2.0}, at::kDouble)));
  EXPECT_DOUBLE_EQ(clip_gradients({a, b}, 10), 2.5);
  EXPECT_TRUE(at::allclose(a.grad(), at::tensor({1.5f, 0.0f}))) << "below the limit nothing changes";
}

TEST(ClipGradients, CountsTiedWeightsOnce) {
  const at::Tensor a = with_gradient(at::tensor({3.0f, 4.0f}));
  EXPECT_DOUBLE_EQ(clip_gradients({a, a}, 1), 5);
  EXPECT_TRUE(at::allclose(a.grad(), at::tensor({0.6f, 0.8f})));
}

TEST(ClipGradients, CountsEachRowOfASparseGradientOnce) {
  const at::Tensor indices = at::tensor({4, 1, 4}, at::kLong).view({1, 3});
  const at::Tensor values = at::tensor({1.0f, 0.0f, 0.0f, 4.0f, 2.0f, 0.0f}).view({3, 2});
  const at::Tensor table = with_gradient(at::zeros({6, 2}));
  table.mutable_grad() = at::_sparse_coo_tensor_unsafe(indices, values, {6, 2});
  const at::Tensor dense = with_gradient(at::tensor({12.0f}));
  EXPECT_DOUBLE_EQ(clip_gradients({table, dense}, 6.5), 13) << "3 (of 1 and 2), 4 and 12";
  EXPECT_TRUE(table.grad().is_sparse());
  EXPECT_FLOAT_EQ(table.grad().to_dense()[4][0].item<float>(), 1.5f);
  EXPECT_FLOAT_EQ(dense.grad().item<float>(), 6);
}

TEST(ClipGradients, NormsDoNotDependOnThreads) {
  const at::Tensor gradient = numbers(1000, 1001, 3);
  double norms[2];
  for (const int threads : {1, 4}) {
    at::set_num_threads(threads);
    norms[threads == 1 ? 0 : 1] = clip_gradients({with_gradient(gradient.clone())}, 1);
  }
  at::set_num_threads(1);
  EXPECT_EQ(norms[0], norms[1]);
  EXPECT_NEAR(norms[0], gradient.to(at::kDouble).norm().item<double>(), 1e-9 * norms[0]);
}

TEST(ClipGradients, InfiniteOnesStayAsTheyAre) {
  const float infinity = std::numeric_limits<float>::infinity();
  const at::Tensor a = with_gradient(at::tensor({3.0f, infinity}));
  EXPECT_TRUE(std::isinf(clip_gradients({a}, 1)));
  EXPECT_TRUE(at::equal(a.grad(), at::tensor({3.0f, infinity})));
}

TEST(ClipGradients, RefusesLimitsThatAreNone) {
  const double infinity = std::numeric_limits<double>::infinity();
  for (const double limit : {0.0, -1.0, infinity, std::nan("")})
    EXPECT_THROW(clip_gradients({}, limit), InvalidArgumentError);
  EXPECT_EQ(clip_gradients({}, 1), 0);
}

}  // namespace
}  // namespace kolo::test::optim
