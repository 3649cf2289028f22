// Attention of heads that are all on this rank.
#pragma once

#include "kolo/train/libtorch.hpp"

#include <ATen/core/Tensor.h>

#include <functional>

namespace kolo::train {

/// softmax(q k^T * scale) v: `q`, `k`, `v` [samples, heads, time, elements]. `drop` is applied to the weights
/// [samples, heads, time, time], if there is one. A `scale` of 0: the inverse root of the elements of a head.
at::Tensor attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, bool causal, double scale,
                     const std::function<at::Tensor(const at::Tensor&)>& drop = {});

}  // namespace kolo::train
