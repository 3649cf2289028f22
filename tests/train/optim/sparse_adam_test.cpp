// SparseAdam: Adam where gradients are dense, Adam's formula on the rows that have one where they are sparse.
#include "kolo/train/optim.hpp"

#include <gtest/gtest.h>
#include <torch/serialize.h>

#include <cmath>
#include <sstream>

#include "kolo/error.hpp"
#include "train/support/models.hpp"

namespace kolo::test::optim {
namespace {

using torch::optim::AdamOptions;

at::Tensor parameter_of(const at::Tensor& values) {
  return values.clone().set_requires_grad(true);
}

/// A gradient of [rows, 2] with values at some rows, one of them given in two parts.
at::Tensor sparse_gradient(std::int64_t rows, int step) {
  const std::int64_t first = step % 3;
  const at::Tensor indices = at::tensor({first, first + 2, first}, at::kLong).view({1, 3});
  return at::_sparse_coo_tensor_unsafe(indices, numbers(3, 2, step).to(at::kDouble), {rows, 2});
}

TEST(SparseAdam, IsAdamWhereGradientsAreDense) {
  const at::Tensor start = numbers(5, 2, 1);
  const at::Tensor ours = parameter_of(start), theirs = parameter_of(start);
  const AdamOptions options = AdamOptions(0.01).weight_decay(0.1).amsgrad(true);
  SparseAdam sparse({ours}, options);
  torch::optim::Adam adam({theirs}, options);
  for (int step = 0; step < 10; ++step) {
    ours.mutable_grad() = numbers(5, 2, step);
    theirs.mutable_grad() = numbers(5, 2, step);
    sparse.step();
    adam.step();
  }
  EXPECT_TRUE(at::equal(ours, theirs));
}

TEST(SparseAdam, MovesTheRowsThatHaveGradientsByAdamsFormula) {
  constexpr int kRows = 6;
  const at::Tensor start = numbers(kRows, 2, 1).to(at::kDouble);
  const at::Tensor table = parameter_of(start), bias = parameter_of(numbers(1, 3, 7));
  SparseAdam optimizer({table, bias}, AdamOptions(0.05));
  double value[kRows][2], mean[kRows][2] = {}, square[kRows][2] = {};
  for (int row = 0; row < kRows; ++row)
    for (int column = 0; column < 2; ++column) value[row][column] = start[row][column].item<double>();
  for (int step = 1; step <= 12; ++step) {
    table.mutable_grad() = sparse_gradient(kRows, step);
    bias.mutable_grad() = numbers(1, 3, step);
    const at::Tensor gradient = table.grad().to_dense();
    optimizer.step();
    EXPECT_TRUE(table.grad().is_sparse()) << "the gradient is still there";
    for (const int row : {step % 3, step % 3 + 2}) {
      for (int column = 0; column < 2; ++column) {
        const auto g = gradient[row][column].item<double>();
        double& m = mean[row][column];
        double& v = square[row][column];
        m = 0.9 * m + 0.1 * g;
        v = 0.999 * v + 0.001 * g * g;
        value[row][column] -=
            0.05 * (m / (1 - std::pow(0.9, step))) / (std::sqrt(v / (1 - std::pow(0.999, step))) + 1e-8);
      }
    }
    for (int row = 0; row < kRows; ++row) {
      for (int column = 0; column < 2; ++column)
        ASSERT_NEAR(table[row][column].item<double>(), value[row][column], 1e-12) << "step " << step;
    }
  }
  EXPECT_TRUE(at::equal(table[5], start[5])) << "a row without gradients has moved";
  EXPECT_FALSE(at::equal(bias, numbers(1, 3, 7))) << "the dense one has not moved";
}

TEST(SparseAdam, GoesOnAfterItWasSaved) {
  at::Tensor ended[2];
  for (const bool is_saved : {false, true}) {
    const at::Tensor table = parameter_of(numbers(6, 2, 1).to(at::kDouble));
    auto optimizer = std::make_unique<SparseAdam>(std::vector<at::Tensor>{table}, AdamOptions(0.05));
    for (int step = 1; step <= 8; ++step) {
      if (step == 5 && is_saved) {
        std::stringstream file;
        torch::save(*optimizer, file);
        optimizer = std::make_unique<SparseAdam>(std::vector<at::Tensor>{table}, AdamOptions(0.05));
        torch::load(*optimizer, file);
      }
      table.mutable_grad() = sparse_gradient(6, step);
      optimizer->step();
    }
    ended[is_saved ? 1 : 0] = table.detach();
  }
  EXPECT_TRUE(at::equal(ended[0], ended[1]));
}

TEST(SparseAdam, RefusesWhatReachesEveryRow) {
  for (const auto& options : {AdamOptions(0.1).weight_decay(0.1), AdamOptions(0.1).amsgrad(true)}) {
    const at::Tensor start = numbers(6, 2, 1).to(at::kDouble);
    const at::Tensor table = parameter_of(start), bias = parameter_of(start);
    SparseAdam optimizer({bias, table}, options);
    bias.mutable_grad() = start;
    table.mutable_grad() = sparse_gradient(6, 1);
    EXPECT_THROW(optimizer.step(), InvalidArgumentError);
    EXPECT_TRUE(at::equal(bias, start)) << "a parameter has moved";
    EXPECT_TRUE(table.grad().is_sparse());
  }
}

}  // namespace
}  // namespace kolo::test::optim
