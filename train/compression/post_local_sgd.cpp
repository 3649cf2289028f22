// PostLocalSgd: the gradient hook that averages over all ranks first and within groups of ranks later.
#include <memory>

#include "compression/numbers.hpp"
#include "kolo/error.hpp"
#include "kolo/train/hooks.hpp"

namespace kolo {
namespace train {
namespace {

constexpr std::string_view kGlobalSteps = "steps";

/// T. Lin et al., "Don't Use Large Mini-Batches, Use Local SGD", ICLR 2020, section 3: after some steps each
/// group goes its own way, and the caller averages parameters now and then. Steps are counted until then
/// only, as afterwards a step may count in one group and not in another.
class PostLocalSgd final : public GradientHook {
 public:
  explicit PostLocalSgd(const PostLocalSgdOptions& options);

  std::string describe() const override;
  bool keeps_ranks_equal() const override { return false; }
  void average(const GradientBucket& bucket, Communicator& communicator) override;
  void end_step(bool keep) override;
  HookState state() const override;
  void set_state(const HookState& state) override;

 private:
  bool is_local() const { return steps_ >= options_.start_after_steps; }

  PostLocalSgdOptions options_;
  std::uint64_t steps_ = 0;
  Communicator group_;  ///< made when it is first needed
};

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

}  // namespace
}  // namespace train

std::shared_ptr<GradientHook> make_post_local_sgd_hook(const PostLocalSgdOptions& options) {
  return std::make_shared<train::PostLocalSgd>(options);
}

}  // namespace kolo
