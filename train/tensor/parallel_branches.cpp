#include "kolo/train/parallel_branches.hpp"

#include <ATen/Functions.h>
#include <ATen/WrapDimUtils.h>

#include <algorithm>
#include <ostream>
#include <sstream>
#include <string>
#include <utility>

#include "kolo/error.hpp"
#include "kolo/train/group_functions.hpp"
#include "kolo/train/slice.hpp"
#include "libtorch/random_state.hpp"
#include "ranks/agreement.hpp"
#include "tensor/communicate.hpp"
#include "tensor/group_collectives.hpp"
#include "tensor/whole_values.hpp"

namespace kolo {
namespace {

std::vector<int> ranks_of_branches(std::int64_t branches, int ranks) {
  std::vector<int> result;
  for (int rank = 0; rank < ranks; ++rank)
    result.insert(result.end(), static_cast<std::size_t>(slice_of(branches, rank, ranks).length), rank);
  return result;
}

void require_ranks(const std::vector<int>& of_branches, std::size_t branches, int ranks) {
  train::require_enough(static_cast<std::int64_t>(branches), "branches", ranks);
  if (of_branches.size() != branches) {
    throw InvalidArgumentError(
        std::to_string(of_branches.size()) + " ranks are given for " + std::to_string(branches) + " branches",
        {});
  }
  for (int rank = 0; rank < ranks; ++rank) {
    if (std::ranges::find(of_branches, rank) != of_branches.end()) continue;
    throw InvalidArgumentError("rank " + std::to_string(rank) + " gets no branch", {});
  }
  for (const int rank : of_branches) {
    if (rank >= 0 && rank < ranks) continue;
    throw InvalidArgumentError(
        "a branch is given to rank " + std::to_string(rank) + " of " + std::to_string(ranks), {});
  }
}

std::string text_of_branches(const ParallelBranchesOptions& options) {
  std::ostringstream text;
  text << options.ranks.size() << " branches on ranks";
  for (const int rank : options.ranks) text << ' ' << rank;
  text << (options.combine == CombineBranches::sum
               ? ", summed"
               : ", concatenated along " + std::to_string(options.dimension));
  return text.str();
}

}  // namespace

ParallelBranchesImpl::ParallelBranchesImpl(const std::vector<MakeBranch>& make,
                                           const ParallelBranchesOptions& options_, Communicator group)
    : options(options_), group_(std::move(group)) {
  const at::Generator by_default;
  if (options.ranks.empty() && group_.valid()) {
    options.ranks = ranks_of_branches(static_cast<std::int64_t>(make.size()), group_.size());
  }
  train::agree_on_module("ParallelBranches", group_, text_of_branches(options), &by_default,
                         [&] { require_ranks(options.ranks, make.size(), group_.size()); });
  train::require_on_all(group_, "ParallelBranches", [&] {
    for (std::size_t i = 0; i < make.size(); ++i) {
      torch::nn::Sequential branch = make[i]();
      if (options.ranks[i] == group_.rank()) own_.push_back(register_module(std::to_string(i), branch));
    }
  });
  train::mark_slices(*this, group_);
}

at::Tensor ParallelBranchesImpl::forward(const at::Tensor& x) {
  const at::Tensor shared = copy_to_group(x, group_);
  // A branch draws as if it were alone, wherever it runs: from a state of its own. Afterwards the generator
  // is alike on all ranks again.
  const std::uint64_t seed = train::number_of_group({}, group_);
  std::vector<at::Tensor> outputs;
  for (std::size_t branch = 0; branch < options.ranks.size(); ++branch) {
    if (options.ranks[branch] != group_.rank()) continue;
    const train::RandomScope own({train::RandomState::seeded(seed + branch)});
    outputs.push_back(own_[outputs.size()]->forward(shared));
  }
  if (options.combine == CombineBranches::concatenate) return concatenated(x, outputs);
  at::Tensor sum = outputs[0];
  for (std::size_t i = 1; i < outputs.size(); ++i) sum = sum + outputs[i];
  return reduce_from_group(sum, group_);
}

/// Of the outputs, along the dimension of concatenation, in the order of ranks and of branches within a rank.
/// They are asked for again where the input has another shape, which it has on all ranks.
std::vector<std::int64_t> ParallelBranchesImpl::lengths_of_branches(const at::Tensor& x,
                                                                    const std::vector<at::Tensor>& own) {
  if (known_input_ == x.sizes().vec()) return known_lengths_;
  std::vector<std::int64_t> mine;
  for (const at::Tensor& output : own) mine.push_back(output.size(options.dimension));
  std::vector<std::uint64_t> counts;
  for (int rank = 0; rank < group_.size(); ++rank)
    counts.push_back(static_cast<std::uint64_t>(std::ranges::count(options.ranks, rank)));
  known_lengths_.resize(options.ranks.size());
  group_.all_gather(ConstBuffer(mine), Buffer(known_lengths_), counts);
  known_input_ = x.sizes().vec();
  return known_lengths_;
}

at::Tensor ParallelBranchesImpl::concatenated(const at::Tensor& x, const std::vector<at::Tensor>& own) {
  const at::Tensor mine = at::cat(own, options.dimension);
  const std::int64_t dimension = at::maybe_wrap_dim(options.dimension, mine.dim());
  const std::vector<std::int64_t> lengths = lengths_of_branches(x, own);
  train::Lengths of_ranks;
  std::vector<std::size_t> places(options.ranks.size());  // of each branch in `lengths`
  std::size_t place = 0;
  for (int rank = 0; rank < group_.size(); ++rank) {
    std::int64_t length = 0;
    for (std::size_t branch = 0; branch < options.ranks.size(); ++branch) {
      if (options.ranks[branch] != rank) continue;
      length += lengths[place];
      places[branch] = place++;
    }
    of_ranks.push_back(length);
  }
  at::Tensor all = mine;
  if (group_.size() > 1) {
    std::int64_t begin = 0;
    for (int rank = 0; rank < group_.rank(); ++rank) begin += of_ranks[static_cast<std::size_t>(rank)];
    const std::int64_t length = of_ranks[static_cast<std::size_t>(group_.rank())];
    all = train::communicate(
        mine,
        [=, group = group_](const at::Tensor& part) mutable {
          return train::gather_of_group(part, dimension, of_ranks, group);
        },
        [=](const at::Tensor& above) { return train::own_part(above, dimension, begin, length); });
  }
  if (std::ranges::is_sorted(places)) return all;
  const auto parts = at::split_with_sizes(all, lengths, dimension);
  std::vector<at::Tensor> in_order;
  for (const std::size_t of_branch : places) in_order.push_back(parts[of_branch]);
  return at::cat(in_order, dimension);
}

void ParallelBranchesImpl::pretty_print(std::ostream& stream) const {
  stream << "kolo::ParallelBranches(" << text_of_branches(options) << ')';
}

}  // namespace kolo
