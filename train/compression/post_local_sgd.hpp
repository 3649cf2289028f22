// PostLocalSgd: the gradient hook that averages over all ranks first and within groups of ranks later.
#pragma once

#include <cstdint>
#include <string>

#include "kolo/train/hooks.hpp"

namespace kolo::train {

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

}  // namespace kolo::train
