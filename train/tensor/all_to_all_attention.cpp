#include <ATen/Functions.h>

#include "kolo/train/group_functions.hpp"
#include "tensor/attention.hpp"
#include "tensor/whole_values.hpp"

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
