#include "tensor/dispatch.hpp"

#include <ATen/Functions.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "kolo/train/slice.hpp"

namespace kolo::train {
namespace {

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

}  // namespace

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

}  // namespace kolo::train
