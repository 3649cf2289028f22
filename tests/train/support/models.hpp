// Small models and data whose values depend on nothing but their arguments.
#pragma once

#include "kolo/train/libtorch.hpp"

#include <ATen/Functions.h>
#include <ATen/Parallel.h>
#include <c10/core/GradMode.h>
#include <torch/nn/module.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/pimpl.h>
#include <torch/optim/sgd.h>

#include <cstdint>
#include <vector>

#include "kolo/train/distributed_data_parallel.hpp"

namespace kolo::test {

/// [rows, columns] numbers between -1 and 1, the same ones for the same `seed` in every thread.
inline at::Tensor numbers(std::int64_t rows, std::int64_t columns, double seed) {
  return at::sin(at::arange(rows * columns, at::kFloat).mul(0.7391).add(seed)).reshape({rows, columns});
}

/// Where tests that have no wish have this rank's model: each program has its own devices.
at::Device device();

/// Overwrites the parameters with such numbers.
inline void fill(torch::nn::Module& module, double seed) {
  const c10::NoGradGuard no_grad;
  for (at::Tensor& parameter : module.parameters()) {
    seed += 1;
    parameter.copy_(numbers(1, parameter.numel(), seed).reshape(parameter.sizes()).mul(0.4));
  }
}

/// Three layers that run in the order in which they are registered.
struct ChainImpl : torch::nn::Module {
  explicit ChainImpl(double seed, std::int64_t width = 16)
      : first(8, width), second(width, 16), third(16, 4) {
    register_module("first", first);
    register_module("second", second);
    register_module("third", third);
    fill(*this, seed);
  }
  at::Tensor forward(const at::Tensor& x) { return third(at::relu(second(at::relu(first(x))))); }

  torch::nn::Linear first, second, third;
};
TORCH_MODULE(Chain);

inline at::Tensor squares(const at::Tensor& output, const at::Tensor& target) {
  return (output - target).square().mean();
}

/// Small buckets, so that even these models have several.
inline DistributedDataParallelOptions small_buckets() {
  DistributedDataParallelOptions options;
  options.first_bucket_bytes = 64;
  options.bucket_bytes = 256;
  return options;
}

inline DistributedDataParallelOptions finding_unused() {
  auto options = small_buckets();
  options.find_unused_parameters = true;
  return options;
}

/// A normalized one, which has buffers.
struct WithBuffersImpl : torch::nn::Module {
  WithBuffersImpl() : norm(4), linear(4, 2) {
    register_module("norm", norm);
    register_module("linear", linear);
    fill(*this, 1);
  }
  at::Tensor forward(const at::Tensor& x) { return linear(norm(x)); }

  torch::nn::BatchNorm1d norm;
  torch::nn::Linear linear;
};
TORCH_MODULE(WithBuffers);

/// The bytes of all parameters, one after the other.
inline std::vector<std::uint8_t> bits(const std::vector<at::Tensor>& parameters) {
  std::vector<std::uint8_t> result;
  for (const at::Tensor& parameter : parameters) {
    const at::Tensor values = parameter.cpu();
    const auto* data = static_cast<const std::uint8_t*>(values.data_ptr());
    result.insert(result.end(), data, data + parameter.nbytes());
  }
  return result;
}

/// Collective: whether all ranks hold the same bits.
inline bool same_everywhere(Communicator& communicator, const std::vector<std::uint8_t>& mine) {
  std::vector<std::uint8_t> all(mine.size() * static_cast<std::size_t>(communicator.size()));
  communicator.all_gather(ConstBuffer(mine), Buffer(all));
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (all[i] != mine[i % mine.size()]) return false;
  }
  return true;
}

}  // namespace kolo::test
