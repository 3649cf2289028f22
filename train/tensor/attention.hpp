// Attention of heads that are all on this rank.
#pragma once

#include "kolo/train/libtorch.hpp"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>

#include "kolo/communicator.hpp"

namespace kolo::train {

/// The factor of scores where `scale` is 0: the inverse root of the elements of a head.
double scale_of_scores(double scale, std::int64_t elements);

/// Throws InvalidArgumentError unless all three have one shape [samples, heads, this rank's places,
/// elements].
void require_attention_shapes(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                              const Communicator& group, std::int64_t whole_sequence);

/// bool [queries, keys]: keys that come after the query, and so are not seen. The first query is number
/// `first_query` of the sequence, likewise the first key.
at::Tensor later_keys(std::int64_t queries, std::int64_t first_query, std::int64_t keys,
                      std::int64_t first_key);

/// softmax(q k^T * scale) v: `q`, `k`, `v` [samples, heads, time, elements]. `drop` is applied to the weights
/// [samples, heads, time, time], if there is one.
at::Tensor attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, bool causal, double scale,
                     const std::function<at::Tensor(const at::Tensor&)>& drop = {});

}  // namespace kolo::train
