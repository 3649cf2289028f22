// Each kind of averaging gives memory back after a failure, and not before calls have ended.
#include "gradients/averaging.hpp"

#include <gtest/gtest.h>
#include <torch/optim/sgd.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <memory>
#include <semaphore>
#include <string>
#include <utility>
#include <vector>

#include "gradients/sliced_averaging.hpp"
#include "gradients/table_averaging.hpp"
#include "gradients/whole_averaging.hpp"
#include "kolo/error.hpp"
#include "kolo/train/hooks.hpp"
#include "sharded/shard_averaging.hpp"
#include "sharded/sharded_step.hpp"
#include "train/support/ranks.hpp"

namespace kolo::test::gradients {
namespace {

using Kind = std::shared_ptr<train::Averaging>;

struct Case {
  std::string name;
  std::function<Kind(std::vector<NamedTensor>, Communicator&)> make;
  bool is_sparse = false;
  bool may_leave_out = false;  ///< settle() leaves out what its thread has not started
  bool is_serial = false;      ///< one bucket at a time is under way
};

template <typename Averaging>
Kind make(std::vector<NamedTensor> parameters, Communicator& communicator,
          DistributedDataParallelOptions options) {
  options.first_bucket_bytes = options.bucket_bytes = 1;  // a bucket each
  return std::make_unique<Averaging>(std::move(parameters), std::vector<std::size_t>{0, 1}, communicator,
                                     options);
}

Kind make_shards(const std::vector<NamedTensor>& parameters, const Communicator& own,
                 std::shared_ptr<GradientHook> hook) {
  struct Shards {
    Shards(const std::vector<train::PlannedUnit>& units, const Communicator& own,
           std::shared_ptr<GradientHook> hook)
        : step(units, own, {}), averaging(step, own, {}, std::move(hook)) {}
    train::ShardedStep step;
    train::ShardAveraging averaging;
  };
  std::vector<train::PlannedUnit> units;
  for (const NamedTensor& parameter : parameters)
    units.push_back({.name = parameter.name, .parameters = {parameter}});
  const auto shards = std::make_shared<Shards>(units, own, std::move(hook));
  return {shards, &shards->averaging};
}

std::vector<Case> cases() {
  DistributedDataParallelOptions hooked, sliced;
  hooked.hook = make_gradient_hook("float16");
  sliced.overlap_forward = [](const std::vector<at::Tensor>& parameters) {
    return std::make_unique<torch::optim::SGD>(parameters, 0.1);
  };
  return {
      {"whole", [](auto parameters, auto& own) { return make<train::WholeAveraging>(parameters, own, {}); }},
      {"hook",
       [=](auto parameters, auto& own) { return make<train::WholeAveraging>(parameters, own, hooked); }},
      {"sliced",
       [=](auto parameters, auto& own) { return make<train::SlicedAveraging>(parameters, own, sliced); },
       false, true},
      {"tables",
       [](auto parameters, auto& own) -> Kind {
         return std::make_unique<train::TableAveraging>(parameters, std::vector<std::size_t>{0, 1}, own,
                                                        SparseMethod::all_reduce);
       },
       true},
      {"shards", [](auto parameters, auto& own) { return make_shards(parameters, own, nullptr); }, false,
       false, true},
      {"shards, hook",
       [](auto parameters, auto& own) { return make_shards(parameters, own, make_gradient_hook("float16")); },
       false, false, true},
  };
}

/// So many buckets are under way when the other rank gives up.
class Settling : public testing::TestWithParam<std::size_t> {};

TEST_P(Settling, EndsWithTheCallsThatBorrowMemory) {
  for (const Case& one : cases()) {
    std::binary_semaphore is_settling{0};
    std::atomic<bool> has_given_up = false;
    const std::size_t under_way = one.is_serial ? std::min<std::size_t>(GetParam(), 1) : GetParam();
    const auto errors = run_ranks(2, [&](Communicator& communicator) {
      std::vector<NamedTensor> parameters;
      for (const char* name : {"a", "b"})
        parameters.push_back({name, at::ones({4096, 2}).set_requires_grad(true)});
      const Kind kind = one.make(parameters, communicator);
      if (communicator.rank() == 1) {
        is_settling.acquire();
        has_given_up = true;
        communicator.abort("rank 1 gives up");
        return;
      }
      kind->begin({}, 1);
      for (std::size_t bucket = 0; bucket < under_way; ++bucket) {
        const at::Tensor& parameter = parameters[kind->members()[bucket][0]].tensor;
        parameter.mutable_grad() = one.is_sparse ? at::ones({4096, 2}).to_sparse(1) : at::ones({4096, 2});
        kind->collect(bucket, 0, parameter);
      }
      is_settling.release();
      kind->settle();
      EXPECT_TRUE(has_given_up || one.may_leave_out || GetParam() == 0) << one.name;
      kind->settle();  // has nothing to do
      communicator.barrier();
    });
    EXPECT_NE(message(errors[0]).find("rank 1 gives up"), std::string::npos) << message(errors[0]);
  }
}

INSTANTIATE_TEST_SUITE_P(Phases, Settling, testing::Values(0, 1, 2));

}  // namespace
}  // namespace kolo::test::gradients
