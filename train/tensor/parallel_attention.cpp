#include "kolo/train/parallel_layers.hpp"

#include <ATen/Functions.h>

#include <ostream>
#include <sstream>
#include <string>
#include <utility>

#include "kolo/error.hpp"
#include "kolo/train/group_functions.hpp"
#include "tensor/attention.hpp"
#include "tensor/whole_values.hpp"

namespace kolo {
namespace {

std::string text_of_attention(const ParallelAttentionOptions& options) {
  std::ostringstream text;
  text << std::boolalpha << "width " << options.width << ", heads " << options.heads << ", causal "
       << options.causal << ", bias " << options.bias << ", dropout " << options.dropout << ", sequence "
       << options.sequence;
  return text.str();
}

}  // namespace

ParallelAttentionImpl::ParallelAttentionImpl(const ParallelAttentionOptions& options_, Communicator group)
    : options(options_), out(nullptr), group_(std::move(group)) {
  agree_on_module("ParallelAttention", group_, text_of_attention(options), &options.generator, [&] {
    train::require_positive(options.width, "features (width)");
    train::require_enough(options.heads, "heads", group_.size());
    train::require_divides(options.width, "features (width)", options.heads, "heads");
    train::require_probability(options.dropout, "a dropout");
  });
  heads = slice_of(options.heads, group_.rank(), group_.size());
  const auto part = [&](at::IntArrayRef sizes) {
    return train::own_part(train::linear_values(sizes, options.width, options.generator), 1, features().begin,
                           features().length);
  };
  in_weight = register_parameter("in_weight", part({3, options.width, options.width}));
  in_bias = options.bias ? register_parameter("in_bias", part({3, options.width}))
                         : register_parameter("in_bias", {}, false);
  out =
      register_module("out", RowParallelLinear(RowParallelLinearOptions{.in_features = options.width,
                                                                        .out_features = options.width,
                                                                        .bias = options.bias,
                                                                        .sequence = options.sequence,
                                                                        .unit = options.width / options.heads,
                                                                        .generator = options.generator},
                                               group_));
  slices_ = {{"in_weight", 1, features(), options.width}, {"in_bias", 1, features(), options.width}};
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

void ParallelAttentionImpl::pretty_print(std::ostream& stream) const {
  stream << "kolo::ParallelAttention(" << text_of_attention(options) << ", heads from " << heads.begin
         << " to " << heads.end() << ')';
}

}  // namespace kolo
