// BucketSearch: measures the first backward passes and finds the borders of buckets that suit them.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "gradients/bucket.hpp"
#include "gradients/bucket_borders.hpp"
#include "kolo/communicator.hpp"
#include "kolo/train/distributed_data_parallel.hpp"

namespace kolo::train {

/// Works in rounds: a step that warms up new buckets, some that are measured, then a decision, which rank 0
/// takes for all ranks. The first round measures buckets by sizes. Each later one measures borders that were
/// found, keeps them only where they expose less, and finds better ones with what their buckets have taught
/// about the price. Not thread-safe.
class BucketSearch {
 public:
  using Clock = std::chrono::steady_clock;
  using Layout = std::vector<std::vector<std::size_t>>;  ///< parameters by bucket, both in their order

  /// `options` say how large a bucket may be, and the wire format for the estimate that the price starts
  /// from.
  BucketSearch(std::size_t parameters, const DistributedDataParallelOptions& options);

  /// A backward begins that averages.
  void begin();
  /// The gradient of a parameter is ready.
  void note(std::size_t parameter);
  /// Collective, at the end of each backward that averages, until is_over(): `buckets`, laid out so, are
  /// done, and `order` is that in which gradients were ready here. Returns the layout for the steps that
  /// follow where it changes. The search ends where rank 0's order is not that of the steps before, and where
  /// rank 0 has no more data (`root`: the first rank that has).
  std::optional<Layout> end_step(Communicator& communicator, const Layout& layout,
                                 const std::vector<Bucket>& buckets, std::span<const std::size_t> order,
                                 int root);

  /// The buckets are good as they are.
  void stop() noexcept { plan_.is_final = true; }
  bool is_over() const noexcept { return plan_.is_final; }
  const BucketPlan& plan() const noexcept { return plan_; }

 private:
  struct Step {
    std::vector<double> ready;  ///< by parameter, seconds since the first gradient
    std::vector<double> done;   ///< by bucket, as well
    double exposed = 0;         ///< from the last gradient to the end of the last bucket
  };
  /// Medians of a round's steps, on which all ranks agree.
  using Round = Step;

  Step measure(const Layout& layout, const std::vector<Bucket>& buckets) const;
  Round agree(Communicator& communicator) const;
  static std::vector<BusyTime> busy_times(const Layout& layout, const std::vector<Bucket>& buckets,
                                          const Round& round);
  /// The buckets of the next round.
  Layout decide(const Communicator& communicator, const Layout& layout, const std::vector<Bucket>& buckets,
                const Round& round);
  /// Collective: rank 0's plan and layout.
  void tell(Communicator& communicator, Layout& layout);
  BucketPrice expected_price(const Communicator& communicator, const std::vector<Bucket>& buckets) const;

  std::optional<Wire> wire_;
  GroupLimits limits_;
  std::vector<Clock::time_point> times_;  ///< by parameter
  std::optional<Clock::time_point> first_;
  std::vector<std::size_t> order_;  ///< of readiness, in the last step
  bool is_steady_ = true;           ///< every step has had that order
  bool warms_up_ = true;            ///< the next step does not count
  std::vector<Step> steps_;         ///< of this round
  // Of rank 0 alone.
  int rounds_ = 0;
  std::vector<BusyTime> busy_;  ///< of all rounds
  Layout best_;                 ///< of the buckets that were measured
  double least_exposed_ = 0;
  BucketPlan plan_;
};

}  // namespace kolo::train
