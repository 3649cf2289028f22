// SlicedAveraging: averages that go on after backward, and optimizers that wait for them in the next forward.
#pragma once

#include "kolo/train/libtorch.hpp"

#include <ATen/ThreadLocalState.h>
#include <torch/optim/optimizer.h>

#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "gradients/slice_thread.hpp"
#include "gradients/whole_averaging.hpp"
#include "kolo/train/distributed_data_parallel.hpp"
#include "libtorch/first_use.hpp"

namespace kolo::train {

/// Backward does not wait for averages, which travel in slices. After each backward the parameters' gradients
/// are taken away, and their parameters watched. The first operation on a parameter waits for its bucket,
/// makes the step of the bucket's optimizer, and goes on.
///
/// Follows "A Generic Communication Scheduler for Distributed DNN Training Acceleration" (ByteScheduler, Peng
/// et al., 2019) in what goes first, and PyTorch's overlapped optimizers in who makes the step.
class SlicedAveraging final : public WholeAveraging {
 public:
  /// Collective. Takes a communicator of its own by Communicator::split(). Throws InvalidArgumentError, on
  /// all ranks, where the factory gives no optimizer, or one of other parameters. The buckets and their order
  /// stay as they are.
  SlicedAveraging(std::vector<NamedTensor> parameters, std::vector<std::size_t> own,
                  Communicator communicator, const DistributedDataParallelOptions& options);

  /// Calls it with each optimizer as soon as that one has made the step that is under way.
  void change_optimizers(const std::function<void(torch::optim::Optimizer&)>& change);
  /// After finish_step().
  std::vector<torch::optim::Optimizer*> optimizers() const;

  void wait() override {}
  /// None, so that an optimizer of the caller's own finds nothing to do, and zero_grad() nothing to clear.
  at::Tensor result(std::size_t, std::size_t) override { return {}; }
  /// Watches the parameters.
  void end() override;
  /// Waits for slices under way; leaves out steps that were not made.
  void settle() noexcept override;
  bool are_finite() const override { return true; }
  bool outlasts_backward() const override { return true; }
  /// Waits for all averages and makes all steps. Throws the first error, also that of a step made in forward.
  void finish_step() override;
  void require_sound() override;
  std::optional<CommunicationStatistics> take_statistics() override;

 private:
  struct Entry {
    std::vector<at::Tensor> parameters;
    std::unique_ptr<torch::optim::Optimizer> optimizer = {};
    bool is_under_way = false;
    std::vector<std::function<void(torch::optim::Optimizer&)>> changes = {};  ///< for after the step
    std::vector<double> ready = {};  ///< seconds after the begin of backward, in the last steps
    std::size_t use = 0;             ///< place in the order of first uses
  };

  /// The step before is over. Collective now and then: rank `share_.root` tells the order of slices.
  void prepare() override;
  void start(std::size_t bucket) override;
  void use(std::size_t bucket) noexcept;
  void make_step(std::size_t bucket);
  void leave_step();
  std::vector<std::uint64_t> plan() const;

  const std::shared_ptr<Timeline> timeline_;
  const at::ThreadLocalState calm_;  ///< of construction: a step is made within an operation of any kind
  std::mutex mutex_;                 ///< two threads may use parameters at once
  std::vector<Entry> entries_;       ///< by bucket
  Communicator slices_;
  std::unique_ptr<SliceThread> thread_;  ///< null after a failure
  FirstUse first_use_;
  std::vector<std::uint64_t> plan_;
  std::uint64_t steps_ = 0;
  std::size_t under_way_ = 0;      ///< entries
  std::vector<std::size_t> uses_;  ///< the buckets in the order of their first uses since end()
  bool is_drained_ = false;        ///< a bucket was waited for without being used
  double seconds_a_byte_ = 0;
  Clock::time_point begin_, end_;  ///< of backward
  std::chrono::nanoseconds exposed_{0};
  std::optional<CommunicationStatistics> statistics_;
  std::exception_ptr error_;
};

}  // namespace kolo::train
