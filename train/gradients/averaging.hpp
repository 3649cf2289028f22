// Averaging: how the gradients of a step become averages; each kind does it in its own way.
#pragma once

#include "kolo/train/libtorch.hpp"

#include <ATen/core/Tensor.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "gradients/join_agreement.hpp"
#include "kolo/communicator.hpp"
#include "kolo/train/parallel_model.hpp"

namespace kolo::train {

inline bool have_one_layout(const at::Tensor& one, const at::Tensor& other) {
  return one.scalar_type() == other.scalar_type() && one.sizes() == other.sizes() &&
         one.strides() == other.strides() && one.device() == other.device();
}

/// Gradients lie in buckets, which are started in their order, never in that of readiness: all ranks must
/// make the same calls in the same order. Parameters are indices among the reducer's; each has a slot of a
/// bucket. Not thread-safe.
class Averaging {
 public:
  using Clock = std::chrono::steady_clock;
  /// When a bucket was under way in the last step, and how many bytes this rank gave.
  struct Span {
    Clock::time_point started, ended;
    std::uint64_t bytes;
  };

  explicit Averaging(Communicator communicator) : communicator_(std::move(communicator)) {}
  virtual ~Averaging() = default;
  Averaging(const Averaging&) = delete;
  Averaging& operator=(const Averaging&) = delete;

  /// Between two steps: lays its own parameters out anew, in their order in `order`, an order of all. `ends`
  /// may say where buckets end among them. Gradients keep their values.
  virtual void lay_out(std::span<const std::size_t> order, std::span<const std::size_t> ends) = 0;
  /// Collective, after each step: whether measurements have led to another layout. `order` is that in which
  /// gradients were ready, `root` the first rank that has data.
  virtual bool improve(std::span<const std::size_t>, int) { return false; }
  /// Where buckets end, for lay_out(); empty unless that was measured.
  virtual std::vector<std::size_t> ends() const { return {}; }
  std::size_t size() const noexcept { return members_.size(); }
  /// The parameters of each bucket, in the order of their slots.
  const std::vector<std::vector<std::size_t>>& members() const noexcept { return members_; }
  /// Whether the parameter has the type, the layout and the device that it had when it was wrapped.
  virtual bool is_alike(std::size_t bucket, std::size_t slot, const at::Tensor& parameter) const = 0;

  /// True: the kind hears of each backward, also of one that only accumulates. begin_backward() comes with
  /// the first gradient, before begin(), and end_backward() last.
  virtual bool hears_of_all() const { return false; }
  virtual void begin_backward() {}
  virtual void end_backward(bool /*has_averaged*/) {}
  /// See GradientListener.
  virtual void make_whole() {}
  virtual void leave_whole() noexcept {}

  /// A backward begins that averages, the one with this number.
  void begin(const StepShare& share, std::uint32_t step) {
    share_ = share;
    step_ = step;
    communicator_.set_label(kLabel, step);
    next_ = 0;
    missing_.clear();
    for (const auto& bucket : members_) missing_.push_back(bucket.size());
    prepare();
  }
  /// The parameter's gradient is there, or stays as it is in this backward; it may be undefined. Starts the
  /// buckets that are complete. `parameter` gets the slot as its gradient.
  void collect(std::size_t bucket, std::size_t slot, const at::Tensor& parameter) {
    take(bucket, slot, parameter);
    --missing_[bucket];
    while (next_ < missing_.size() && missing_[next_] == 0) start(next_++);
  }
  /// A gradient for a rank that has no data.
  virtual at::Tensor zero(std::size_t, std::size_t) { return {}; }
  /// Blocks until all averages are there. Throws the first error.
  virtual void wait() = 0;
  /// Collective: by parameter, whether some rank has used it; ranks that the reducer does not know may have.
  virtual void share_use(std::span<std::uint8_t>) {}
  /// The average, for the parameter, if it gets one.
  virtual at::Tensor result(std::size_t, std::size_t) { return {}; }
  /// No rank has used the parameter.
  virtual void forget(std::size_t, std::size_t) {}
  /// Backward is over, and parameters have their averages.
  virtual void end() {}
  /// After a failure in any phase: returns when no call borrows memory any more.
  virtual void settle() noexcept = 0;

  /// Whether the last step's averages are finite.
  virtual bool are_finite() const = 0;
  virtual Span span(std::size_t bucket) const = 0;
  /// In a timeline: the bucket, and the row that it is in.
  virtual std::string name_of(std::size_t bucket) const { return "bucket " + std::to_string(bucket); }
  virtual const char* row() const { return "buckets"; }
  /// The number that counts its buckets.
  virtual std::uint64_t& count_of(CommunicationStatistics& statistics) const {
    return statistics.all_reduces;
  }

  /// For how long calls before wait() have waited, since the last step.
  virtual std::chrono::nanoseconds take_waited() { return {}; }

  /// True: averages go on after wait(), which does not wait for them, and parameters have no gradients.
  virtual bool outlasts_backward() const { return false; }
  /// Of averages that outlast backward: waits for them. Throws the first error.
  virtual void finish_step() {}
  /// Throws such an error, without waiting.
  virtual void require_sound() {}
  /// What a step cost that outlasted backward, once after it is over.
  virtual std::optional<CommunicationStatistics> take_statistics() { return {}; }

 protected:
  /// A step begins with the next call.
  virtual void prepare() {}
  virtual void take(std::size_t bucket, std::size_t slot, const at::Tensor& parameter) = 0;
  /// All gradients of the bucket are there, and the buckets before it have been started.
  virtual void start(std::size_t bucket) = 0;
  void set_members(std::vector<std::vector<std::size_t>> members) { members_ = std::move(members); }

  static constexpr const char* kLabel = "the averages of step";

  Communicator communicator_;
  StepShare share_;         ///< of the step
  std::uint32_t step_ = 0;  ///< its number

 private:
  std::vector<std::vector<std::size_t>> members_;
  std::vector<std::size_t> missing_;  ///< by bucket: gradients that are not there yet
  std::size_t next_ = 0;              ///< the first bucket that has not been started
};

}  // namespace kolo::train
