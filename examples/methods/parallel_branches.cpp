#include "methods/parallel_branches.hpp"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Functions.h>

#include <algorithm>
#include <mutex>
#include <ostream>
#include <sstream>
#include <string>
#include <utility>

#include "kolo/error.hpp"
#include "kolo/train/averages.hpp"
#include "kolo/train/group_functions.hpp"
#include "kolo/train/slice.hpp"

namespace kolo::methods {
namespace {

std::vector<int> ranks_of_branches(std::int64_t branches, int ranks) {
  std::vector<int> result;
  for (int rank = 0; rank < ranks; ++rank)
    result.insert(result.end(), static_cast<std::size_t>(slice_of(branches, rank, ranks).length), rank);
  return result;
}

void require_ranks(const std::vector<int>& of_branches, std::size_t branches, int ranks) {
  const auto require = [](bool holds, const std::string& problem) {
    if (!holds) throw InvalidArgumentError(problem, {});
  };
  require(std::cmp_greater_equal(branches, ranks),
          std::to_string(branches) + " branches cannot be divided among " + std::to_string(ranks) + " ranks");
  require(of_branches.size() == branches, std::to_string(of_branches.size()) + " ranks are given for " +
                                              std::to_string(branches) + " branches");
  for (int rank = 0; rank < ranks; ++rank) {
    require(std::ranges::find(of_branches, rank) != of_branches.end(),
            "rank " + std::to_string(rank) + " gets no branch");
  }
  for (const int rank : of_branches) {
    require(rank >= 0 && rank < ranks,
            "a branch is given to rank " + std::to_string(rank) + " of " + std::to_string(ranks));
  }
}

std::string text_of(const ParallelBranchesOptions& options) {
  std::ostringstream text;
  text << options.ranks.size() << " branches on ranks";
  for (const int rank : options.ranks) text << ' ' << rank;
  text << (options.combine == CombineBranches::sum
               ? ", summed"
               : ", concatenated along " + std::to_string(options.dimension));
  return text.str();
}

/// While it lives, libtorch's default generator is as if it had just been seeded.
class Seeded {
 public:
  explicit Seeded(std::uint64_t seed) {
    const std::lock_guard lock(generator_.mutex());
    before_ = generator_.get_state();
    generator_.set_current_seed(seed);
  }
  ~Seeded() {
    const std::lock_guard lock(generator_.mutex());
    generator_.set_state(before_);
  }
  Seeded(const Seeded&) = delete;
  Seeded& operator=(const Seeded&) = delete;

 private:
  at::Generator generator_ = at::detail::getDefaultCPUGenerator();
  at::Tensor before_;
};

/// Each rank draws a number, and all get that of rank 0: generators in one state stay so.
std::uint64_t seed_of_group(Communicator& group) {
  auto seed = static_cast<std::uint64_t>(at::empty({}, at::kLong).random_().item<std::int64_t>());
  group.broadcast(Buffer(&seed, 1, DType::uint64), 0);
  return seed;
}

}  // namespace

ParallelBranchesImpl::ParallelBranchesImpl(const std::vector<MakeBranch>& make,
                                           const ParallelBranchesOptions& options_, Communicator group)
    : options(options_), group_(std::move(group)) {
  const at::Generator by_default;
  if (options.ranks.empty() && group_.valid()) {
    options.ranks = ranks_of_branches(static_cast<std::int64_t>(make.size()), group_.size());
  }
  agree_on_module("ParallelBranches", group_, text_of(options), &by_default,
                  [&] { require_ranks(options.ranks, make.size(), group_.size()); });
  agree(group_, "ParallelBranches", "", [&] {
    for (std::size_t i = 0; i < make.size(); ++i) {
      torch::nn::Sequential branch = make[i]();
      if (options.ranks[i] == group_.rank()) own_.push_back(register_module(std::to_string(i), branch));
    }
  });
  mark_slices(*this, group_);
}

at::Tensor ParallelBranchesImpl::forward(const at::Tensor& x) {
  const at::Tensor shared = copy_to_group(x, group_);
  // A branch draws as if it were alone, wherever it runs: from a state of its own. Afterwards the generator
  // is alike on all ranks again.
  const std::uint64_t seed = seed_of_group(group_);
  std::vector<at::Tensor> outputs;
  for (std::size_t branch = 0; branch < options.ranks.size(); ++branch) {
    if (options.ranks[branch] != group_.rank()) continue;
    const Seeded own(seed + branch);
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
  const std::vector<std::int64_t> lengths = lengths_of_branches(x, own);
  std::vector<std::int64_t> of_ranks;
  std::vector<std::size_t> places(options.ranks.size());  // of each branch in `lengths`
  std::size_t place = 0;
  for (int rank = 0; rank < group_.size(); ++rank) {
    of_ranks.push_back(0);
    for (std::size_t branch = 0; branch < options.ranks.size(); ++branch) {
      if (options.ranks[branch] != rank) continue;
      of_ranks.back() += lengths[place];
      places[branch] = place++;
    }
  }
  const at::Tensor all =
      gather_from_group(at::cat(own, options.dimension), options.dimension, group_, of_ranks);
  if (std::ranges::is_sorted(places)) return all;
  const auto parts = at::split_with_sizes(all, lengths, options.dimension);
  std::vector<at::Tensor> in_order;
  for (const std::size_t of_branch : places) in_order.push_back(parts[of_branch]);
  return at::cat(in_order, options.dimension);
}

void ParallelBranchesImpl::pretty_print(std::ostream& stream) const {
  stream << "ParallelBranches(" << text_of(options) << ')';
}

}  // namespace kolo::methods
