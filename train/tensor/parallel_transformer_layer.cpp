#include "kolo/train/parallel_layers.hpp"

#include <optional>
#include <sstream>

#include "tensor/activation.hpp"
#include "tensor/whole_values.hpp"

namespace kolo {

ParallelTransformerLayerImpl::ParallelTransformerLayerImpl(const ParallelTransformerLayerOptions& options_,
                                                           const Communicator& group)
    : options(options_),
      attention_norm(nullptr),
      attention(nullptr),
      mlp_norm(nullptr),
      mlp(nullptr),
      group_(group) {
  if (options.hidden == 0) options.hidden = 4 * options.width;
  std::ostringstream text;
  text << std::boolalpha << "width " << options.width << ", heads " << options.heads << ", hidden "
       << options.hidden << ", causal " << options.causal << ", "
       << train::name_of_activation(options.activation) << ", dropout " << options.dropout
       << ", attention_dropout " << options.attention_dropout << ", sequence " << options.sequence;
  agree_on_module("ParallelTransformerLayer", group, text.str(), &options.generator,
                  [&] { train::require_probability(options.dropout, "a dropout"); });
  const auto norm = [&] {
    return ParallelLayerNorm(
        ParallelLayerNormOptions{.features = options.width, .sequence = options.sequence}, group);
  };
  attention_norm = register_module("attention_norm", norm());
  attention = register_module("attention",
                              ParallelAttention(ParallelAttentionOptions{.width = options.width,
                                                                         .heads = options.heads,
                                                                         .causal = options.causal,
                                                                         .dropout = options.attention_dropout,
                                                                         .sequence = options.sequence,
                                                                         .generator = options.generator},
                                                group));
  mlp_norm = register_module("mlp_norm", norm());
  mlp = register_module("mlp", ParallelMLP(ParallelMLPOptions{.width = options.width,
                                                              .hidden = options.hidden,
                                                              .activation = options.activation,
                                                              .sequence = options.sequence,
                                                              .generator = options.generator},
                                           group));
}

at::Tensor ParallelTransformerLayerImpl::forward(const at::Tensor& x, std::int64_t whole_sequence) {
  const at::Tensor attended = x + drop(attention(attention_norm(x), whole_sequence), whole_sequence);
  return attended + drop(mlp(mlp_norm(attended), whole_sequence), whole_sequence);
}

at::Tensor ParallelTransformerLayerImpl::drop(const at::Tensor& x, std::int64_t whole_sequence) const {
  if (!is_training() || options.dropout == 0) return x;
  std::optional<Split> split;
  if (options.sequence) {
    const std::int64_t whole = whole_sequence > 0 ? whole_sequence : group_.size() * x.size(1);
    split = Split{1, slice_of(whole, group_.rank(), group_.size()), whole};
  }
  return split_dropout(x, options.dropout, split, options.generator, group_);
}

}  // namespace kolo
