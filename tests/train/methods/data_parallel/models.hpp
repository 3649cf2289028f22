// Models that DataParallel can clone, and what they are compared with.
#pragma once

#include "train/support/models.hpp"

#include <torch/nn/cloneable.h>

#include <functional>
#include <vector>

#include "methods/data_parallel.hpp"

namespace kolo::test::data_parallel {

using namespace methods;

struct LayersImpl : torch::nn::Cloneable<LayersImpl> {
  LayersImpl() { reset(); }
  void reset() override {
    first = register_module("first", torch::nn::Linear(4, 6));
    second = register_module("second", torch::nn::Linear(6, 2));
    fill(*this, 1);
  }
  at::Tensor forward(const at::Tensor& x) { return second(at::tanh(first(x))); }

  torch::nn::Linear first{nullptr}, second{nullptr};
};
TORCH_MODULE(Layers);

struct NormalizedImpl : torch::nn::Cloneable<NormalizedImpl> {
  NormalizedImpl() { reset(); }
  void reset() override {
    norm = register_module("norm", torch::nn::BatchNorm1d(4));
    linear = register_module("linear", torch::nn::Linear(4, 2));
    fill(*this, 1);
  }
  at::Tensor forward(const at::Tensor& x) { return linear(norm(x)); }

  torch::nn::BatchNorm1d norm{nullptr};
  torch::nn::Linear linear{nullptr};
};
TORCH_MODULE(Normalized);

/// A model whose forward is a function of the test; `weight` is [4, 2].
struct FreeImpl : torch::nn::Cloneable<FreeImpl> {
  using Forward = std::function<at::Tensor(FreeImpl&, const at::Tensor&)>;
  explicit FreeImpl(Forward body_) : body(std::move(body_)) { reset(); }
  void reset() override {
    weight = register_parameter("weight", numbers(4, 2, 3).to(at::kDouble));
    other = register_parameter("other", numbers(4, 2, 4).to(at::kDouble));
  }
  at::Tensor forward(const at::Tensor& x) { return body(*this, x); }

  Forward body;
  at::Tensor weight, other;
};
TORCH_MODULE(Free);

inline at::Tensor doubles(std::int64_t rows, std::int64_t columns, double seed) {
  return numbers(rows, columns, seed).to(at::kDouble);
}

template <typename Holder>
Holder in_doubles(Holder model) {
  model->to(at::kDouble);
  return model;
}

inline bool close(const at::Tensor& a, const at::Tensor& b) {
  if (!a.defined() || !b.defined()) return a.defined() == b.defined();
  return at::allclose(a, b, 1e-10, 1e-10);
}

inline void expect_same_gradients(const torch::nn::Module& a, const torch::nn::Module& b) {
  const auto ours = a.named_parameters(), theirs = b.named_parameters();
  ASSERT_EQ(ours.size(), theirs.size());
  for (const auto& parameter : ours) {
    EXPECT_TRUE(close(parameter.value().grad(), theirs[parameter.key()].grad())) << parameter.key();
  }
}

}  // namespace kolo::test::data_parallel
