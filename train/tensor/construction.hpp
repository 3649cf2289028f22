// What constructors of divided modules share: initial values of whole parameters, of which each rank takes
// its slice, and what they require of options; and activations.
#pragma once

#include "kolo/train/libtorch.hpp"

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>

#include <cstdint>

#include "kolo/train/parallel_layers.hpp"

namespace kolo::train {

/// [sizes] of numbers as torch::nn::Linear with so many inputs has them: to plus or minus their inverse root.
at::Tensor linear_values(at::IntArrayRef sizes, std::int64_t inputs, const at::Generator& generator);
/// [sizes] of the normal distribution N(0, 1).
at::Tensor normal_values(at::IntArrayRef sizes, at::Generator generator);

/// Throws InvalidArgumentError unless `value` is 1 or more, and unless `ranks` have one at least each.
void require_positive(std::int64_t value, const char* what);
void require_enough(std::int64_t value, const char* what, int ranks);
/// Throws InvalidArgumentError unless `part` divides `whole`.
void require_divides(std::int64_t whole, const char* what, std::int64_t part, const char* by);
void require_probability(double value, const char* what);
/// Throws InvalidArgumentError unless the last dimension of `x` has `features` elements.
void require_features(const at::Tensor& x, std::int64_t features, const char* who);
/// Throws InvalidArgumentError unless all are whole numbers from 0 to below `vocabulary`.
void require_in_vocabulary(const at::Tensor& indices, std::int64_t vocabulary);

at::Tensor activate(const at::Tensor& x, Activation activation);
const char* name_of_activation(Activation activation);

}  // namespace kolo::train
