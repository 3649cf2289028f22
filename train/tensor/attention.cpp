#include "tensor/attention.hpp"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>

#include <cmath>
#include <limits>
#include <string>

#include "kolo/error.hpp"
#include "kolo/train/group_functions.hpp"
#include "kolo/train/slice.hpp"
#include "tensor/whole_values.hpp"

namespace kolo::train {

double scale_of_scores(double scale, std::int64_t elements) {
  return scale != 0 ? scale : 1 / std::sqrt(static_cast<double>(elements));
}

void require_attention_shapes(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                              const Communicator& group, std::int64_t whole_sequence) {
  if (q.dim() != 4 || q.sizes() != k.sizes() || q.sizes() != v.sizes() || q.size(3) == 0) {
    throw InvalidArgumentError("q, k and v are of one shape [samples, heads, places, elements], not " +
                                   c10::str(q.sizes()) + ", " + c10::str(k.sizes()) + ", " +
                                   c10::str(v.sizes()),
                               {});
  }
  const std::int64_t own =
      whole_sequence > 0 ? slice_of(whole_sequence, group.rank(), group.size()).length : q.size(2);
  if (q.size(2) == own) return;
  throw InvalidArgumentError("this rank has " + std::to_string(q.size(2)) + " places of a sequence of " +
                                 std::to_string(whole_sequence) + ", and its slice " + std::to_string(own),
                             {});
}

at::Tensor later_keys(std::int64_t queries, std::int64_t first_query, std::int64_t keys,
                      std::int64_t first_key) {
  const at::Tensor query = at::arange(first_query, first_query + queries, at::kLong).unsqueeze(1);
  return at::arange(first_key, first_key + keys, at::kLong) > query;
}

at::Tensor attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, bool causal, double scale,
                     const std::function<at::Tensor(const at::Tensor&)>& drop) {
  at::Tensor scores = at::matmul(q * scale_of_scores(scale, q.size(-1)), k.transpose(-2, -1));
  if (causal) {
    scores =
        scores.masked_fill(later_keys(q.size(2), 0, k.size(2), 0), -std::numeric_limits<double>::infinity());
  }
  const at::Tensor weights = at::softmax(scores, -1);
  return at::matmul(drop ? drop(weights) : weights, v);
}

}  // namespace kolo::train

namespace kolo {

at::Tensor all_to_all_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                                const Communicator& group, const SequenceAttentionOptions& options) {
  train::require_attention_shapes(q, k, v, group, options.whole_sequence);
  const std::int64_t heads = q.size(1);
  train::require_enough(heads, "heads", group.size());
  const at::Tensor of_heads = all_to_all(at::stack({q, k, v}), 2, 3, group, options.whole_sequence);
  const at::Tensor seen =
      train::attention(of_heads[0], of_heads[1], of_heads[2], options.causal, options.scale);
  return all_to_all(seen, 2, 1, group, heads);
}

}  // namespace kolo
