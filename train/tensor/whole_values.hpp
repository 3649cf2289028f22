// Initial values of whole parameters, of which each rank takes its slice; and what ranks agree on before.
#pragma once

#include "kolo/train/libtorch.hpp"

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>

#include <cstdint>
#include <functional>
#include <string>

#include "kolo/communicator.hpp"

namespace kolo::train {

/// Collective: what every module that is divided among a group begins with. Throws, on all ranks,
/// InvalidArgumentError with what `require_valid` throws on the first rank where it throws, and MismatchError
/// that names the rank whose `text` (one line, the options in words) is not that of most, or whose generator
/// has another state, so that its initial values would not fit theirs (null: it has none that are random).
void agree_on_module(const std::string& who, Communicator group, const std::string& text,
                     const at::Generator* generator, const std::function<void()>& require_valid);

/// What such a module ends with: its parameters that are not the same on all ranks are known as parts.
void mark_slices(const torch::nn::Module& module, const Communicator& group);

/// [sizes] of numbers from -bound to bound.
at::Tensor uniform_values(at::IntArrayRef sizes, double bound, at::Generator generator);
/// Those of torch::nn::Linear with so many inputs: plus or minus their inverse root.
at::Tensor linear_values(at::IntArrayRef sizes, std::int64_t inputs, const at::Generator& generator);
at::Tensor normal_values(at::IntArrayRef sizes, at::Generator generator);

/// A copy of a part, so that the whole can be freed.
at::Tensor own_part(const at::Tensor& whole, std::int64_t dimension, std::int64_t begin, std::int64_t length);

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

}  // namespace kolo::train
