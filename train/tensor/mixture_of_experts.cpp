#include "kolo/train/mixture_of_experts.hpp"

#include <ATen/Functions.h>

#include <algorithm>
#include <cmath>
#include <ostream>
#include <sstream>
#include <string>
#include <utility>

#include "kolo/error.hpp"
#include "kolo/train/group_functions.hpp"
#include "tensor/activation.hpp"
#include "tensor/communicate.hpp"
#include "tensor/dispatch.hpp"
#include "tensor/group_collectives.hpp"
#include "tensor/whole_values.hpp"

namespace kolo {
namespace {

std::string text_of_experts(const MixtureOfExpertsOptions& options) {
  std::ostringstream text;
  text << "width " << options.width << ", hidden " << options.hidden << ", experts " << options.experts
       << ", chosen " << options.chosen << ", capacity_factor " << options.capacity_factor << ", "
       << train::name_of_activation(options.activation);
  return text.str();
}

/// Rows to the ranks that they are for, by their numbers; backward sends the gradients back.
at::Tensor exchange_rows(const at::Tensor& rows, const train::Lengths& sent, const train::Lengths& received,
                         const Communicator& group) {
  if (group.size() == 1) return rows;
  const auto exchange = [&group](const train::Lengths& from, const train::Lengths& to) {
    return [from, to, communicator = group](const at::Tensor& x) mutable {
      return train::exchange_of_group(x, 0, from, 0, to, communicator);
    };
  };
  return train::communicate(rows, exchange(sent, received), exchange(received, sent));
}

/// The places of a permutation's elements.
at::Tensor inverse_of(const at::Tensor& permutation) {
  return at::empty_like(permutation)
      .scatter_(0, permutation, at::arange(permutation.numel(), permutation.options()));
}

}  // namespace

MixtureOfExpertsImpl::MixtureOfExpertsImpl(const MixtureOfExpertsOptions& options_, Communicator group)
    : options(options_), group_(std::move(group)) {
  agree_on_module("MixtureOfExperts", group_, text_of_experts(options), &options.generator, [&] {
    train::require_positive(options.width, "features (width)");
    train::require_positive(options.hidden, "hidden features");
    train::require_enough(options.experts, "experts", group_.size());
    if (options.chosen != 1 && options.chosen != 2) {
      throw InvalidArgumentError(std::to_string(options.chosen) + " experts a token: it is 1 or 2", {});
    }
    if (options.chosen > options.experts) throw InvalidArgumentError("a token uses 2 of 1 experts", {});
    if (!(options.capacity_factor >= 0) || !std::isfinite(options.capacity_factor))
      throw InvalidArgumentError("a capacity_factor is 0 or more, and finite", {});
  });
  experts = slice_of(options.experts, group_.rank(), group_.size());
  gate = register_parameter(
      "gate", train::linear_values({options.experts, options.width}, options.width, options.generator));
  const auto part = [&](at::IntArrayRef sizes, std::int64_t inputs) {
    return train::own_part(train::linear_values(sizes, inputs, options.generator), 0, experts.begin,
                           experts.length);
  };
  up = register_parameter("up", part({options.experts, options.hidden, options.width}, options.width));
  up_bias = register_parameter("up_bias", part({options.experts, options.hidden}, options.width));
  down = register_parameter("down", part({options.experts, options.width, options.hidden}, options.hidden));
  down_bias = register_parameter("down_bias", part({options.experts, options.width}, options.hidden));
  mark_slices(*this, group_);
}

at::Tensor MixtureOfExpertsImpl::forward(const at::Tensor& x) {
  train::require_features(x, options.width, "MixtureOfExperts");
  const at::Tensor tokens = x.reshape({-1, options.width});
  const at::ScalarType type = tokens.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  // Each rank has a part of the tokens, so a part of the gate's gradient.
  const at::Tensor scores = at::linear(tokens.to(type), copy_to_group(gate.to(type), group_));
  const at::Tensor probabilities = at::softmax(scores, -1);
  const auto [highest, chosen] = at::topk(probabilities, options.chosen, -1);
  const train::Dispatch dispatch =
      train::plan_dispatch(chosen, options.experts, options.capacity_factor, group_);
  const auto tokens_of_all = static_cast<double>(std::max<std::int64_t>(dispatch.tokens, 1));
  loads_ = dispatch.loads;
  dropped_ = dispatch.dropped;
  const at::Tensor first = at::tensor(dispatch.first, at::kLong).to(type) / tokens_of_all;
  const at::Tensor mean = reduce_from_group(probabilities.sum(0), group_) / tokens_of_all;
  balance_loss_ = static_cast<double>(options.experts) * (first * mean).sum();

  const at::Tensor token_of = at::floor_divide(dispatch.choices, options.chosen);
  const at::Tensor there =
      exchange_rows(tokens.index_select(0, token_of), dispatch.sent, dispatch.received, group_);
  const at::Tensor computed = run_experts(there.index_select(0, dispatch.by_expert), dispatch.of_expert)
                                  .index_select(0, inverse_of(dispatch.by_expert));
  const at::Tensor back = exchange_rows(computed, dispatch.received, dispatch.sent, group_);
  const at::Tensor weights = options.chosen == 1 ? highest : highest / highest.sum(-1, true);
  const at::Tensor weighted =
      back * weights.reshape({-1, 1}).index_select(0, dispatch.choices).to(back.scalar_type());
  return at::zeros_like(tokens).index_add(0, token_of, weighted).view(x.sizes());
}

at::Tensor MixtureOfExpertsImpl::run_experts(const at::Tensor& tokens,
                                             const std::vector<std::int64_t>& of_expert) const {
  std::vector<at::Tensor> outputs;
  std::int64_t begin = 0;
  for (std::int64_t expert = 0; expert < experts.length; ++expert) {
    const std::int64_t count = of_expert[static_cast<std::size_t>(expert)];
    const at::Tensor hidden = train::activate(
        at::linear(tokens.narrow(0, begin, count), up[expert], up_bias[expert]), options.activation);
    outputs.push_back(at::linear(hidden, down[expert], down_bias[expert]));
    begin += count;
  }
  return at::cat(outputs);
}

std::vector<TensorParallelModule::SlicedParameter> MixtureOfExpertsImpl::sliced_parameters() const {
  std::vector<SlicedParameter> slices;
  for (const char* const name : {"up", "up_bias", "down", "down_bias"})
    slices.push_back({name, 0, experts, options.experts});
  return slices;
}

void MixtureOfExpertsImpl::pretty_print(std::ostream& stream) const {
  stream << "kolo::MixtureOfExperts(" << text_of_experts(options) << ", experts from " << experts.begin
         << " to " << experts.end() << ')';
}

}  // namespace kolo
