#include "kolo/train/mixture_of_experts.hpp"

#include <ATen/Functions.h>

#include <algorithm>
#include <cmath>
#include <sstream>
#include <string>
#include <utility>

#include "kolo/error.hpp"
#include "kolo/train/group_functions.hpp"
#include "kolo/train/tensor.hpp"
#include "tensor/construction.hpp"
#include "tensor/group_collectives.hpp"

namespace kolo {
namespace {

std::string text_of_experts(const MixtureOfExpertsOptions& options) {
  std::ostringstream text;
  text << "width " << options.width << ", hidden " << options.hidden << ", experts " << options.experts
       << ", chosen " << options.chosen << ", capacity_factor " << options.capacity_factor << ", "
       << train::name_of_activation(options.activation);
  return text.str();
}

/// Which tokens go to which experts, and in what order.
struct Dispatch {
  /// Choices that no expert dropped, by expert, and within an expert first choices first: each is
  /// token * chosen + number of the choice, int64 [choices].
  at::Tensor choices;
  train::Lengths sent;       ///< of these, those to each rank
  train::Lengths received;   ///< from each rank
  train::Lengths of_expert;  ///< received by each of this rank's experts, from all ranks
  /// int64 [received]: places of what was received, by expert. From a rank it comes by expert.
  at::Tensor by_expert;

  at::Tensor loads;         ///< choices of each expert, of all ranks
  at::Tensor first;         ///< those of them that are first choices
  std::int64_t tokens = 0;  ///< of all ranks
  std::int64_t dropped = 0;
};

train::Lengths lengths_of(const at::Tensor& numbers) {
  const at::Tensor dense = numbers.cpu().contiguous();
  return {dense.data_ptr<std::int64_t>(), dense.data_ptr<std::int64_t>() + dense.numel()};
}

/// Of each of these, in a row: how many come before it.
at::Tensor begins_of(const at::Tensor& counts) {
  return counts.cumsum(0) - counts;
}

/// The places of equal numbers in ascending order, equal ones in the order in which they are.
at::Tensor places_in_order(const at::Tensor& numbers) {
  return std::get<1>(at::sort(numbers, /*stable=*/true, 0, /*descending=*/false));
}

/// Of each rank's slice of the last dimension the sum.
train::Lengths sums_by_rank(const at::Tensor& of_expert, int ranks) {
  train::Lengths sums;
  for (const at::Tensor& part : at::split_with_sizes(of_expert, slice_lengths(of_expert.size(0), ranks), 0))
    sums.push_back(part.sum().item<std::int64_t>());
  return sums;
}

/// Collective: `chosen_there` int64 [this rank's tokens, 1 or 2], numbers of experts. An expert takes
/// `capacity_factor` times an equal part of all choices, rounded up; 0: all. The host plans, also for
/// devices.
Dispatch plan_dispatch(const at::Tensor& chosen_there, std::int64_t experts, double capacity_factor,
                       Communicator& group) {
  const at::Tensor chosen = chosen_there.cpu();
  const std::int64_t tokens = chosen.size(0), kinds = chosen.size(1), ranks = group.size();
  const at::Tensor by_kind = chosen.t().flatten();
  const at::Tensor kind_of = at::arange(kinds, at::kLong).repeat_interleave(tokens);
  const at::Tensor mine = at::cat(
      {at::bincount(kind_of * experts + by_kind, {}, kinds * experts), at::full({1}, tokens, at::kLong)});
  const at::Tensor all = at::empty({ranks, mine.numel()}, at::kLong);
  all_gather_async(mine, all, group).wait();
  Dispatch dispatch;
  dispatch.tokens = all.select(1, -1).sum().item<std::int64_t>();
  // An expert takes the choices in the order of kinds and ranks until it is full.
  const at::Tensor there =
      all.narrow(1, 0, kinds * experts).view({ranks, kinds, experts}).transpose(0, 1).flatten(0, 1);
  const double equal_part = static_cast<double>(kinds * dispatch.tokens) / static_cast<double>(experts);
  const at::Tensor until = there.cumsum(0);
  at::Tensor kept = there;
  if (capacity_factor > 0) {
    const auto capacity = static_cast<std::int64_t>(std::ceil(capacity_factor * equal_part));
    kept = until.clamp_max(capacity) - (until - there).clamp_max(capacity);
  }
  const auto by_rank = [&](const at::Tensor& counts) { return counts.view({kinds, ranks, experts}); };
  dispatch.dropped = (there - kept).sum().item<std::int64_t>();
  dispatch.first = by_rank(there)[0].sum(0);
  dispatch.loads = there.sum(0);

  const Slice own = slice_of(experts, group.rank(), group.size());
  const at::Tensor kept_of_all = by_rank(kept).sum(0);  // [ranks, experts]
  const at::Tensor here = kept_of_all.narrow(1, own.begin, own.length);
  dispatch.sent = sums_by_rank(kept_of_all[group.rank()], group.size());
  dispatch.received = lengths_of(here.sum(1));
  dispatch.of_expert = lengths_of(here.sum(0));
  dispatch.by_expert =
      places_in_order(at::arange(own.length, at::kLong).repeat({ranks}).repeat_interleave(here.flatten()));

  // This rank's choices by expert, kind and token; of each kind an expert takes the first ones.
  const at::Tensor places = places_in_order(by_kind);
  const at::Tensor counts = by_rank(there).select(1, group.rank()).t().flatten();
  const at::Tensor taken = by_rank(kept).select(1, group.rank()).t().flatten();
  const at::Tensor last = (begins_of(counts) + taken).repeat_interleave(counts);
  const at::Tensor kept_places = places.masked_select(at::arange(places.numel(), at::kLong) < last);
  dispatch.choices =
      kept_places.remainder(std::max<std::int64_t>(tokens, 1)) * kinds + kind_of.index_select(0, kept_places);
  for (at::Tensor* const used : {&dispatch.choices, &dispatch.by_expert, &dispatch.first})
    *used = used->to(chosen_there.device());
  return dispatch;
}

/// Rows to the ranks that they are for, by their numbers; backward sends the gradients back.
at::Tensor exchange_rows(const at::Tensor& rows, const train::Lengths& sent, const train::Lengths& received,
                         const Communicator& group) {
  if (group.size() == 1) return rows;
  return train::communicate(rows, train::exchange(0, sent, 0, received, group),
                            train::exchange(0, received, 0, sent, group));
}

/// The places of a permutation's elements.
at::Tensor inverse_of(const at::Tensor& permutation) {
  return at::empty_like(permutation)
      .scatter_(0, permutation, at::arange(permutation.numel(), permutation.options()));
}

}  // namespace

MixtureOfExpertsImpl::MixtureOfExpertsImpl(const MixtureOfExpertsOptions& options_, Communicator group)
    : ParallelLayer(std::move(group)), options(options_) {
  begin_construction("MixtureOfExperts", text_of_experts(options), &options.generator, [&] {
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
  const auto part = [&](const char* name, at::IntArrayRef sizes, std::int64_t inputs) {
    return register_slice(name, train::linear_values(sizes, inputs, options.generator), 0, experts);
  };
  up = part("up", {options.experts, options.hidden, options.width}, options.width);
  up_bias = part("up_bias", {options.experts, options.hidden}, options.width);
  down = part("down", {options.experts, options.width, options.hidden}, options.hidden);
  down_bias = part("down_bias", {options.experts, options.width}, options.hidden);
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
  const Dispatch dispatch = plan_dispatch(chosen, options.experts, options.capacity_factor, group_);
  const auto tokens_of_all = static_cast<double>(std::max<std::int64_t>(dispatch.tokens, 1));
  loads_ = lengths_of(dispatch.loads);
  dropped_ = dispatch.dropped;
  const at::Tensor first = dispatch.first.to(type) / tokens_of_all;
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

}  // namespace kolo
