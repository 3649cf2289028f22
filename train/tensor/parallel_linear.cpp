#include "kolo/train/parallel_layers.hpp"

#include <ATen/Functions.h>

#include <sstream>
#include <string>
#include <utility>

#include "kolo/error.hpp"
#include "kolo/train/group_functions.hpp"
#include "tensor/construction.hpp"

namespace kolo {
namespace {

/// This rank's of `features`, of which `unit` stay together.
Slice slice_of_units(std::int64_t features, std::int64_t unit, const Communicator& group) {
  const Slice units = slice_of(features / unit, group.rank(), group.size());
  return {units.begin * unit, units.length * unit};
}

template <typename Options>
std::string text_of_linear(const Options& options) {
  std::ostringstream text;
  text << std::boolalpha << "in_features " << options.in_features << ", out_features " << options.out_features
       << ", bias " << options.bias << ", sequence " << options.sequence << ", unit " << options.unit;
  return text.str();
}

void require_units(std::int64_t features, const char* what, std::int64_t unit, int ranks) {
  train::require_positive(unit, "features a unit");
  train::require_enough(features, what, ranks);
  train::require_divides(features, what, unit, "features a unit");
  train::require_enough(features / unit, "units of features", ranks);
}

}  // namespace

ColumnParallelLinearImpl::ColumnParallelLinearImpl(const ColumnParallelLinearOptions& options_,
                                                   Communicator group)
    : ParallelLayer(std::move(group)), options(options_) {
  const std::string text =
      text_of_linear(options) + (options.gather_output ? ", gathers its output" : ", leaves slices");
  begin_construction("ColumnParallelLinear", text, &options.generator, [&] {
    train::require_positive(options.in_features, "in_features");
    require_units(options.out_features, "out_features", options.unit, group_.size());
    if (options.gather_output && options.unit > 1 && (options.out_features / options.unit) % group_.size())
      throw InvalidArgumentError("outputs are gathered where slices of units are equally long", {});
  });
  outputs = slice_of_units(options.out_features, options.unit, group_);
  const auto part = [&](const char* name, at::IntArrayRef sizes) {
    return register_slice(name, train::linear_values(sizes, options.in_features, options.generator), 0,
                          outputs);
  };
  weight = part("weight", {options.out_features, options.in_features});
  bias = options.bias ? part("bias", {options.out_features}) : register_parameter("bias", {}, false);
  mark_slices(*this, group_);
}

at::Tensor ColumnParallelLinearImpl::forward(const at::Tensor& x, std::int64_t whole_sequence) {
  train::require_features(x, options.in_features, "ColumnParallelLinear");
  const at::Tensor all =
      options.sequence ? gather_sequence(x, 1, group_, whole_sequence) : copy_to_group(x, group_);
  const at::Tensor y = at::linear(all, weight, bias);
  return options.gather_output ? gather_from_group(y, -1, group_, options.out_features) : y;
}

RowParallelLinearImpl::RowParallelLinearImpl(const RowParallelLinearOptions& options_, Communicator group)
    : ParallelLayer(std::move(group)), options(options_) {
  const std::string text =
      text_of_linear(options) + (options.input_is_slice ? ", takes slices" : ", takes its slice");
  begin_construction("RowParallelLinear", text, &options.generator, [&] {
    train::require_positive(options.out_features, "out_features");
    require_units(options.in_features, "in_features", options.unit, group_.size());
    if (!options.input_is_slice && options.unit > 1 && (options.in_features / options.unit) % group_.size())
      throw InvalidArgumentError("replicated inputs are split where slices of units are equally long", {});
  });
  inputs = slice_of_units(options.in_features, options.unit, group_);
  weight = register_slice("weight",
                          train::linear_values({options.out_features, options.in_features},
                                               options.in_features, options.generator),
                          1, inputs);
  bias = options.bias
             ? register_parameter("bias", train::linear_values({options.out_features}, options.in_features,
                                                               options.generator))
             : register_parameter("bias", {}, false);
  mark_slices(*this, group_);
}

at::Tensor RowParallelLinearImpl::forward(const at::Tensor& x) {
  train::require_features(x, options.input_is_slice ? inputs.length : options.in_features,
                          "RowParallelLinear");
  const at::Tensor part = options.input_is_slice ? x : split_to_group(x, -1, group_);
  const at::Tensor partial = at::linear(part, weight);
  const at::Tensor y =
      options.sequence ? scatter_sequence(partial, 1, group_) : reduce_from_group(partial, group_);
  if (!bias.defined()) return y;
  // A rank that adds it to a slice of the sequence has a part of its gradient.
  return y + (options.sequence ? copy_to_group(bias, group_) : bias);
}

}  // namespace kolo
