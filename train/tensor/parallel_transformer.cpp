#include <ATen/Functions.h>

#include <cmath>
#include <sstream>

#include "kolo/error.hpp"
#include "kolo/train/group_functions.hpp"
#include "tensor/attention.hpp"
#include "tensor/construction.hpp"

namespace kolo {

ParallelLayerNormImpl::ParallelLayerNormImpl(const ParallelLayerNormOptions& options_, Communicator group)
    : ParallelLayer(std::move(group)), options(options_) {
  std::ostringstream text;
  text << std::boolalpha << "features " << options.features << ", eps " << options.eps << ", sequence "
       << options.sequence;
  begin_construction("ParallelLayerNorm", text.str(), nullptr, [&] {
    train::require_positive(options.features, "features");
    if (!(options.eps >= 0) || !std::isfinite(options.eps)) throw InvalidArgumentError("eps is negative", {});
  });
  weight = register_parameter("weight", at::ones({options.features}));
  bias = register_parameter("bias", at::zeros({options.features}));
}

at::Tensor ParallelLayerNormImpl::forward(const at::Tensor& x) {
  train::require_features(x, options.features, "ParallelLayerNorm");
  if (!options.sequence) return at::layer_norm(x, {options.features}, weight, bias, options.eps);
  const at::Tensor both = copy_to_group(at::stack({weight, bias}), group_);
  return at::layer_norm(x, {options.features}, both[0], both[1], options.eps);
}

ParallelMLPImpl::ParallelMLPImpl(const ParallelMLPOptions& options_, const Communicator& group)
    : options(options_), up(nullptr), down(nullptr) {
  std::ostringstream text;
  text << std::boolalpha << "width " << options.width << ", hidden " << options.hidden << ", "
       << train::name_of_activation(options.activation) << ", bias " << options.bias << ", sequence "
       << options.sequence;
  agree_on_module("ParallelMLP", group, text.str(), &options.generator, [&] {
    train::require_positive(options.width, "features (width)");
    train::require_enough(options.hidden, "hidden features", group.size());
  });
  up = register_module("up", ColumnParallelLinear(ColumnParallelLinearOptions{.in_features = options.width,
                                                                              .out_features = options.hidden,
                                                                              .bias = options.bias,
                                                                              .sequence = options.sequence,
                                                                              .generator = options.generator},
                                                  group));
  down = register_module("down", RowParallelLinear(RowParallelLinearOptions{.in_features = options.hidden,
                                                                            .out_features = options.width,
                                                                            .bias = options.bias,
                                                                            .sequence = options.sequence,
                                                                            .generator = options.generator},
                                                   group));
}

at::Tensor ParallelMLPImpl::forward(const at::Tensor& x, std::int64_t whole_sequence) {
  return down(train::activate(up(x, whole_sequence), options.activation));
}

ParallelAttentionImpl::ParallelAttentionImpl(const ParallelAttentionOptions& options_, Communicator group)
    : ParallelLayer(std::move(group)), options(options_), out(nullptr) {
  std::ostringstream text;
  text << std::boolalpha << "width " << options.width << ", heads " << options.heads << ", causal "
       << options.causal << ", bias " << options.bias << ", dropout " << options.dropout << ", sequence "
       << options.sequence;
  begin_construction("ParallelAttention", text.str(), &options.generator, [&] {
    train::require_positive(options.width, "features (width)");
    train::require_enough(options.heads, "heads", group_.size());
    train::require_divides(options.width, "features (width)", options.heads, "heads");
    train::require_probability(options.dropout, "a dropout");
  });
  heads = slice_of(options.heads, group_.rank(), group_.size());
  const auto part = [&](const char* name, at::IntArrayRef sizes) {
    return register_slice(name, train::linear_values(sizes, options.width, options.generator), 1, features());
  };
  in_weight = part("in_weight", {3, options.width, options.width});
  in_bias = options.bias ? part("in_bias", {3, options.width}) : register_parameter("in_bias", {}, false);
  out =
      register_module("out", RowParallelLinear(RowParallelLinearOptions{.in_features = options.width,
                                                                        .out_features = options.width,
                                                                        .bias = options.bias,
                                                                        .sequence = options.sequence,
                                                                        .unit = options.width / options.heads,
                                                                        .generator = options.generator},
                                               group_));
  mark_slices(*this, group_);
}

Slice ParallelAttentionImpl::features() const {
  const std::int64_t each = options.width / options.heads;
  return {heads.begin * each, heads.length * each};
}

at::Tensor ParallelAttentionImpl::forward(const at::Tensor& x, std::int64_t whole_sequence) {
  train::require_features(x, options.width, "ParallelAttention");
  if (x.dim() != 3)
    throw InvalidArgumentError("ParallelAttention takes [samples, time, width], not " + c10::str(x.sizes()),
                               {});
  const at::Tensor all =
      options.sequence ? gather_sequence(x, 1, group_, whole_sequence) : copy_to_group(x, group_);
  const std::int64_t samples = all.size(0), time = all.size(1);
  const at::Tensor projected =
      at::linear(all, in_weight.flatten(0, 1), in_bias.defined() ? in_bias.flatten() : in_bias);
  const at::Tensor of_heads = projected.view({samples, time, 3, heads.length, -1}).permute({2, 0, 3, 1, 4});
  const bool drops = is_training() && options.dropout > 0;
  const at::Tensor seen = train::attention(of_heads[0], of_heads[1], of_heads[2], options.causal, 0,
                                           drops ? [this](const at::Tensor& weights) { return drop(weights); }
                                                 : std::function<at::Tensor(const at::Tensor&)>());
  return out(seen.transpose(1, 2).reshape({samples, time, -1}));
}

at::Tensor ParallelAttentionImpl::drop(const at::Tensor& weights) const {
  return split_dropout(weights, options.dropout, Split{1, heads, options.heads}, options.generator, group_);
}

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
