#include "compression/post_local_sgd.hpp"

#include "compression/numbers.hpp"
#include "kolo/error.hpp"

namespace kolo::train {
namespace {

constexpr std::string_view kGlobalSteps = "steps";

}  // namespace

PostLocalSgd::PostLocalSgd(const PostLocalSgdOptions& options) : options_(options) {
  if (options.ranks_per_group < 1) {
    throw InvalidArgumentError("post_local_sgd: groups of " + std::to_string(options.ranks_per_group) +
                                   " ranks have less than one rank",
                               {});
  }
}

std::string PostLocalSgd::describe() const {
  return "post_local_sgd:start_after_steps=" + std::to_string(options_.start_after_steps) +
         ":ranks_per_group=" + std::to_string(options_.ranks_per_group);
}

void PostLocalSgd::average(const GradientBucket& bucket, Communicator& communicator) {
  if (is_local() && options_.ranks_per_group == 1) return;
  if (is_local() && !group_.valid())
    group_ = communicator.split(communicator.rank() / options_.ranks_per_group);
  (is_local() ? group_ : communicator).all_reduce(Buffer(bucket.gradients), ReduceOp::average);
}

void PostLocalSgd::end_step(bool keep) {
  if (keep && !is_local()) ++steps_;
}

HookState PostLocalSgd::state() const {
  HookState state;
  save_count(state, kGlobalSteps, steps_);
  return state;
}

void PostLocalSgd::set_state(const HookState& state) {
  HookState rest = state;
  const std::uint64_t steps = take_count(rest, kGlobalSteps);
  GradientHook::set_state(rest);
  steps_ = steps;
}

}  // namespace kolo::train
