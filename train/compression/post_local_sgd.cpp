// PostLocalSgd: the gradient hook that averages over all ranks first and within groups of ranks later.
#include <memory>

#include "compression/keeping_hook.hpp"
#include "compression/options.hpp"
#include "kolo/error.hpp"

namespace kolo {
namespace train {
namespace {

/// T. Lin et al., "Don't Use Large Mini-Batches, Use Local SGD", ICLR 2020, section 3: after some steps each
/// group goes its own way, and the caller averages parameters now and then. Steps are counted until then
/// only, as afterwards a step may count in one group and not in another.
class PostLocalSgd final : public KeepingHook {
 public:
  explicit PostLocalSgd(const PostLocalSgdOptions& options);

  std::string describe() const override { return specification_of("post_local_sgd", options_); }
  bool keeps_ranks_equal() const override { return false; }
  void average(const GradientBucket& bucket, Communicator& communicator) override;
  void end_step(bool keep) override { KeepingHook::end_step(keep && !is_local()); }

 private:
  bool is_local() const { return steps_ >= options_.start_after_steps; }

  PostLocalSgdOptions options_;
  Communicator group_;  ///< made when it is first needed
};

PostLocalSgd::PostLocalSgd(const PostLocalSgdOptions& options) : KeepingHook({}), options_(options) {
  if (options.ranks_per_group < 1) {
    throw InvalidArgumentError("post_local_sgd: groups of " + std::to_string(options.ranks_per_group) +
                                   " ranks have less than one rank",
                               {});
  }
}

void PostLocalSgd::average(const GradientBucket& bucket, Communicator& communicator) {
  if (is_local() && options_.ranks_per_group == 1) return;
  if (is_local() && !group_.valid())
    group_ = communicator.split(communicator.rank() / options_.ranks_per_group);
  (is_local() ? group_ : communicator).all_reduce(Buffer(bucket.gradients), ReduceOp::average);
}

}  // namespace
}  // namespace train

std::shared_ptr<GradientHook> make_post_local_sgd_hook(const PostLocalSgdOptions& options) {
  return std::make_shared<train::PostLocalSgd>(options);
}

}  // namespace kolo
