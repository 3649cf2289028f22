// Training of a module that is divided among ranks, beside the same computation in plain libtorch.
#pragma once

#include "kolo/train/libtorch.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "kolo/communicator.hpp"
#include "train/support/models.hpp"

namespace kolo::test::tensor {

/// A generator of a rank's own: ranks are threads, which share libtorch's default one.
at::Generator seeded(std::uint64_t seed);

/// Numbers between -1 and 1 of this shape, in float64.
at::Tensor waves(std::vector<std::int64_t> sizes, double seed);

/// Relative to the largest element.
double relative_distance(const at::Tensor& one, const at::Tensor& other);

using Whole = std::map<std::string, at::Tensor>;

/// Collective: all parameters of a module that is divided among a group.
Whole whole_of(const torch::nn::Module& module, const Communicator& group);

/// A module, and what makes its output, replicated, of an input that is.
struct Built {
  std::shared_ptr<torch::nn::Module> module;
  std::function<at::Tensor(const at::Tensor&)> forward;
  /// Added to the loss; may be empty.
  std::function<at::Tensor()> penalty = {};
};

struct Comparison {
  std::function<Built(Communicator&)> build;
  /// What one process computes from the whole parameters, by name.
  std::function<at::Tensor(const Whole&, const at::Tensor&)> plain;
  at::Tensor input;
  at::ScalarType type = at::kDouble;
  std::vector<int> ranks;
  double tolerance = 1e-10;
};

/// After 20 steps of SGD with momentum output, loss, the gradient of the input and all parameters are those
/// of `plain`, for each number of ranks; replicated parameters have the same bits of gradient on all of them.
void expect_as_one_process(const Comparison& comparison);

/// All ranks throw an error with this text, and can go on with the communicator.
void expect_refusal(Communicator& communicator, const std::string& said,
                    const std::function<void(Communicator&)>& body);

}  // namespace kolo::test::tensor
