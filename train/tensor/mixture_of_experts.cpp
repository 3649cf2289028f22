#include "kolo/train/mixture_of_experts.hpp"

#include <ATen/Functions.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <ostream>
#include <sstream>
#include <string>
#include <utility>

#include "kolo/error.hpp"
#include "kolo/train/group_functions.hpp"
#include "tensor/activation.hpp"
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

/// Which tokens go to which experts, and in what order.
struct Dispatch {
  /// Choices that no expert dropped, by expert, and within an expert first choices first: each is
  /// token * chosen + number of the choice, int64 [choices].
  at::Tensor choices;
  std::vector<std::int64_t> sent;       ///< of these, those to each rank
  std::vector<std::int64_t> received;   ///< from each rank
  std::vector<std::int64_t> of_expert;  ///< received by each of this rank's experts, from all ranks
  /// int64 [received]: places of what was received, by expert. From a rank it comes by expert.
  at::Tensor by_expert;

  std::vector<std::int64_t> loads;  ///< choices of each expert, of all ranks
  std::vector<std::int64_t> first;  ///< those of them that are first choices
  std::int64_t tokens = 0;          ///< of all ranks
  std::int64_t dropped = 0;
};

using Numbers = std::vector<std::int64_t>;

at::Tensor tensor_of(const Numbers& numbers) {
  const at::Tensor tensor = at::empty({static_cast<std::int64_t>(numbers.size())}, at::kLong);
  std::ranges::copy(numbers, tensor.data_ptr<std::int64_t>());
  return tensor;
}

/// How many choices of each kind (first, second), rank and expert there are; and how many are kept.
class Choices {
 public:
  Choices(std::int64_t kinds, std::int64_t experts, int ranks)
      : kinds_(kinds), experts_(experts), ranks_(ranks) {}

  /// Collective. `mine`: by kind and expert. Returns the tokens of all ranks.
  std::int64_t gather(Numbers mine, std::int64_t tokens, Communicator& group) {
    mine.push_back(tokens);
    all_.resize(mine.size() * static_cast<std::size_t>(ranks_));
    group.all_gather(ConstBuffer(mine), Buffer(all_));
    std::int64_t sum = 0;
    for (int rank = 0; rank < ranks_; ++rank) sum += all_[begin_of(rank) + mine.size() - 1];
    return sum;
  }

  /// An expert takes the choices in the order of kinds and ranks until it is full.
  void keep(std::int64_t capacity) {
    kept_.assign(all_.size(), 0);
    for (std::int64_t expert = 0; expert < experts_; ++expert) {
      std::int64_t left = capacity;
      for (std::int64_t kind = 0; kind < kinds_; ++kind) {
        for (int rank = 0; rank < ranks_; ++rank) {
          const std::int64_t taken = std::min(left, all_[at(kind, rank, expert)]);
          kept_[at(kind, rank, expert)] = taken;
          left -= taken;
        }
      }
    }
  }

  std::int64_t there(std::int64_t kind, int rank, std::int64_t expert) const {
    return all_[at(kind, rank, expert)];
  }
  std::int64_t kept(std::int64_t kind, int rank, std::int64_t expert) const {
    return kept_[at(kind, rank, expert)];
  }
  std::int64_t kept(int rank, std::int64_t expert) const {
    std::int64_t sum = 0;
    for (std::int64_t kind = 0; kind < kinds_; ++kind) sum += kept(kind, rank, expert);
    return sum;
  }
  std::int64_t kept_of(int rank, const Slice& experts) const {
    std::int64_t sum = 0;
    for (std::int64_t expert = experts.begin; expert < experts.end(); ++expert) sum += kept(rank, expert);
    return sum;
  }

 private:
  std::size_t begin_of(int rank) const {
    return static_cast<std::size_t>(rank) * static_cast<std::size_t>(kinds_ * experts_ + 1);
  }
  std::size_t at(std::int64_t kind, int rank, std::int64_t expert) const {
    return begin_of(rank) + static_cast<std::size_t>(kind * experts_ + expert);
  }

  std::int64_t kinds_, experts_;
  int ranks_;
  Numbers all_, kept_;
};

/// This rank's choices that are kept, by expert and kind. `chosen` is contiguous.
Numbers kept_choices(const at::Tensor& chosen, std::int64_t experts, int rank, const Choices& choices) {
  const std::int64_t tokens = chosen.size(0), kinds = chosen.size(1);
  const auto* const expert_of = chosen.data_ptr<std::int64_t>();
  std::vector<Numbers> of_expert(static_cast<std::size_t>(experts));
  for (std::int64_t kind = 0; kind < kinds; ++kind) {
    Numbers left;
    for (std::int64_t expert = 0; expert < experts; ++expert)
      left.push_back(choices.kept(kind, rank, expert));
    for (std::int64_t token = 0; token < tokens; ++token) {
      const std::int64_t choice = token * kinds + kind;
      const auto expert = static_cast<std::size_t>(expert_of[choice]);
      if (left[expert]-- > 0) of_expert[expert].push_back(choice);
    }
  }
  Numbers result;
  for (const Numbers& some : of_expert) result.insert(result.end(), some.begin(), some.end());
  return result;
}

/// Places of what has come, rank by rank and within a rank by expert, in the order of the experts.
Numbers places_by_expert(const Slice& own, const Numbers& received, const Choices& choices) {
  Numbers next;  // of each rank
  std::int64_t begin = 0;
  for (const std::int64_t length : received) {
    next.push_back(begin);
    begin += length;
  }
  Numbers places;
  for (std::int64_t expert = own.begin; expert < own.end(); ++expert) {
    for (std::size_t rank = 0; rank < next.size(); ++rank) {
      const std::int64_t count = choices.kept(static_cast<int>(rank), expert);
      for (std::int64_t i = 0; i < count; ++i) places.push_back(next[rank]++);
    }
  }
  return places;
}

/// Collective: `chosen` int64 [this rank's tokens, 1 or 2], numbers of experts. An expert takes
/// `capacity_factor` times an equal part of all choices, rounded up; 0: all.
Dispatch plan_dispatch(const at::Tensor& chosen_, std::int64_t experts, double capacity_factor,
                       Communicator& group) {
  const at::Tensor chosen = chosen_.contiguous();
  const std::int64_t tokens = chosen.size(0), kinds = chosen.size(1);
  const int ranks = group.size();
  Numbers mine(static_cast<std::size_t>(kinds * experts));
  for (std::int64_t i = 0; i < chosen.numel(); ++i)
    ++mine[static_cast<std::size_t>(i % kinds * experts + chosen.data_ptr<std::int64_t>()[i])];
  Choices choices(kinds, experts, ranks);
  Dispatch dispatch;
  dispatch.tokens = choices.gather(mine, tokens, group);
  const double equal_part = static_cast<double>(kinds * dispatch.tokens) / static_cast<double>(experts);
  choices.keep(capacity_factor > 0 ? static_cast<std::int64_t>(std::ceil(capacity_factor * equal_part))
                                   : std::numeric_limits<std::int64_t>::max());

  const Slice own = slice_of(experts, group.rank(), ranks);
  std::int64_t kept = 0;
  for (int rank = 0; rank < ranks; ++rank) {
    dispatch.sent.push_back(choices.kept_of(group.rank(), slice_of(experts, rank, ranks)));
    dispatch.received.push_back(choices.kept_of(rank, own));
    kept += choices.kept_of(rank, {0, experts});
  }
  dispatch.dropped = kinds * dispatch.tokens - kept;
  for (std::int64_t expert = 0; expert < experts; ++expert) {
    std::int64_t first = 0, all = 0, here = 0;
    for (int rank = 0; rank < ranks; ++rank) {
      first += choices.there(0, rank, expert);
      for (std::int64_t kind = 0; kind < kinds; ++kind) all += choices.there(kind, rank, expert);
      here += choices.kept(rank, expert);
    }
    dispatch.first.push_back(first);
    dispatch.loads.push_back(all);
    if (expert >= own.begin && expert < own.end()) dispatch.of_expert.push_back(here);
  }
  dispatch.choices = tensor_of(kept_choices(chosen, experts, group.rank(), choices));
  dispatch.by_expert = tensor_of(places_by_expert(own, dispatch.received, choices));
  return dispatch;
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
  for (const char* const name : {"up", "up_bias", "down", "down_bias"})
    slices_.push_back({name, 0, experts, options.experts});
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

void MixtureOfExpertsImpl::pretty_print(std::ostream& stream) const {
  stream << "kolo::MixtureOfExperts(" << text_of_experts(options) << ", experts from " << experts.begin
         << " to " << experts.end() << ')';
}

}  // namespace kolo
