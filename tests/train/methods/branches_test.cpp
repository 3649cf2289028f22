// Branches on different ranks compute what one process computes of all.
#include <gtest/gtest.h>
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/dropout.h>
#include <torch/nn/modules/linear.h>
#include <torch/utils.h>

#include <stdexcept>

#include "kolo/train/parallel_layers.hpp"
#include "methods/parallel_branches.hpp"
#include "train/support/ranks.hpp"
#include "train/tensor/training.hpp"

namespace kolo::test::tensor {
namespace {

using methods::CombineBranches;
using methods::ParallelBranches;
using methods::ParallelBranchesImpl;
using methods::ParallelBranchesOptions;

constexpr std::int64_t kBranches = 5;

/// Branch i has i + 1 outputs if they are concatenated. Values depend on i alone, as ranks are threads of one
/// process, which share libtorch's default generator.
std::vector<ParallelBranchesImpl::MakeBranch> branches_for(CombineBranches combine) {
  std::vector<ParallelBranchesImpl::MakeBranch> make;
  for (std::int64_t i = 0; i < kBranches; ++i) {
    make.push_back([=] {
      const std::int64_t outputs = combine == CombineBranches::sum ? 3 : i + 1;
      torch::nn::Sequential branch(torch::nn::Linear(4, 6), torch::nn::Tanh(), torch::nn::Linear(6, outputs));
      fill(*branch, static_cast<double>(i));
      return branch;
    });
  }
  return make;
}

at::Tensor plain_branches(const Whole& p, const at::Tensor& x, CombineBranches combine) {
  std::vector<at::Tensor> outputs;
  for (std::int64_t i = 0; i < kBranches; ++i) {
    const std::string name = std::to_string(i) + '.';
    const at::Tensor hidden = at::tanh(at::linear(x, p.at(name + "0.weight"), p.at(name + "0.bias")));
    outputs.push_back(at::linear(hidden, p.at(name + "2.weight"), p.at(name + "2.bias")));
  }
  return combine == CombineBranches::sum ? at::stack(outputs).sum(0) : at::cat(outputs, 1);
}

/// Constructors draw random numbers that are overwritten, from the generator that all threads share; it must
/// be in the same state on all ranks when they agree.
Built branches_of(Communicator& group, const ParallelBranchesOptions& options) {
  group.barrier();
  if (group.rank() == 0) torch::manual_seed(1);
  group.barrier();
  ParallelBranches branches(branches_for(options.combine), options, group);
  group.barrier();
  return {branches.ptr(), [branches](const at::Tensor& x) mutable { return branches(x); }};
}

TEST(ParallelBranches, SumsAndConcatenationsEqualThoseOfOneProcess) {
  for (const auto combine : {CombineBranches::sum, CombineBranches::concatenate}) {
    expect_as_one_process(
        {.build = [&](Communicator& group) { return branches_of(group, {.combine = combine}); },
         .plain = [&](const Whole& p, const at::Tensor& x) { return plain_branches(p, x, combine); },
         .input = waves({3, 4}, 1),
         .ranks = combine == CombineBranches::sum ? std::vector<int>{1, 2, 4} : std::vector<int>{3}});
  }
}

TEST(ParallelBranches, OutputsKeepTheirOrderWhereverTheyAreComputed) {
  expect_as_one_process(
      {.build =
           [&](Communicator& group) {
             return branches_of(
                 group, {.combine = CombineBranches::concatenate, .dimension = -1, .ranks = {1, 0, 1, 2, 0}});
           },
       .plain = [&](const Whole& p,
                    const at::Tensor& x) { return plain_branches(p, x, CombineBranches::concatenate); },
       .input = waves({3, 4}, 1),
       .ranks = {3}});
}

TEST(ParallelBranches, DrawAsIfEachWereAlone) {
  run_all(1, [](Communicator& group) {
    const auto identity = [] { return torch::nn::Sequential(torch::nn::Identity()); };
    const auto dropout = [] { return torch::nn::Sequential(torch::nn::Dropout(0.5)); };
    /// Of each branch for ones, and the number that follows.
    const auto outputs_of = [&](const std::vector<ParallelBranchesImpl::MakeBranch>& make) {
      const ParallelBranchesOptions options{.combine = CombineBranches::concatenate, .dimension = 0};
      ParallelBranches branches(make, options, group);
      torch::manual_seed(5);
      std::vector<at::Tensor> outputs = branches(at::ones({1, 64})).unbind(0);
      outputs.push_back(at::rand({1}));
      return outputs;
    };
    const auto plain = outputs_of({identity, identity}), one = outputs_of({identity, dropout}),
               both = outputs_of({dropout, dropout});
    EXPECT_TRUE(at::equal(plain[2], one[2])) << "what follows does not depend on what branches draw";
    EXPECT_TRUE(at::equal(plain[2], both[2]));
    EXPECT_TRUE(at::equal(one[1], both[1])) << "nor does another branch";
    EXPECT_FALSE(at::equal(both[0], both[1])) << "branches drop independently";
  });
}

TEST(ParallelBranches, AnInputOfAnotherShapeHasOutputsOfOtherLengths) {
  run_all(2, [](Communicator& group) {
    const Built built = branches_of(group, {.combine = CombineBranches::concatenate, .dimension = 1});
    const Whole whole = whole_of(*built.module, group);
    for (const std::int64_t samples : {3, 2, 2, 3}) {
      const at::Tensor x = waves({samples, 4}, samples).to(at::kFloat);
      const at::Tensor expected = plain_branches(whole, x, CombineBranches::concatenate);
      EXPECT_LT(relative_distance(built.forward(x).detach(), expected), 1e-6);
    }
  });
}

TEST(ParallelBranches, ThatARankLacksAreRefused) {
  run_all(3, [](Communicator& group) {
    const auto make = [] { return torch::nn::Sequential(torch::nn::Linear(2, 2)); };
    const auto branches = [&](std::size_t count, std::vector<int> ranks) {
      return [=](Communicator& all) {
        ParallelBranches(std::vector<ParallelBranchesImpl::MakeBranch>(count, make),
                         ParallelBranchesOptions{.ranks = ranks}, all);
      };
    };
    expect_refusal(group, "ParallelBranches: rank 0: 2 branches cannot be divided among 3 ranks",
                   branches(2, {}));
    expect_refusal(group, "rank 2 gets no branch", branches(3, {0, 1, 1}));
    expect_refusal(group, "a branch is given to rank 3 of 3", branches(4, {0, 1, 2, 3}));
    expect_refusal(group, "2 ranks are given for 3 branches", branches(3, {0, 1}));
  });
}

TEST(ParallelBranches, ThatOneRankCannotMakeAreRefusedOnAll) {
  run_all(3, [](Communicator& group) {
    const auto make = [&] {
      if (group.rank() == 1) throw std::runtime_error("out of branches");
      return torch::nn::Sequential(torch::nn::Identity());
    };
    expect_refusal(group, "ParallelBranches: rank 1: out of branches", [&](Communicator& all) {
      ParallelBranches(std::vector<ParallelBranchesImpl::MakeBranch>(3, make), ParallelBranchesOptions{},
                       all);
    });
  });
}

}  // namespace
}  // namespace kolo::test::tensor
