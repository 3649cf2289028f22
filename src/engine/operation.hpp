// Operation: one call in flight, whichever way it runs.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/deadline.hpp"
#include "base/home_process.hpp"
#include "base/status.hpp"
#include "engine/callbacks.hpp"
#include "engine/completion.hpp"
#include "engine/group.hpp"
#include "engine/listed.hpp"
#include "engine/plan.hpp"
#include "kernels/kernels.hpp"
#include "kolo/communicator.hpp"
#include "kolo/reduction.hpp"

namespace kolo::engine {

class ActiveOperations;
class Engine;

/// What calls with the same key have in common. Lives as long as an operation that was made from it.
struct PreparedCall : std::enable_shared_from_this<PreparedCall> {
  schedule::CallKey key = {};
  transport::Signature signature = {};         ///< of a call without a label
  std::string algorithm = {};                  ///< for Work::algorithm(); empty for send and recv
  std::shared_ptr<const Plan> plan = nullptr;  ///< null if the call runs in shared memory
  shared_memory::Team* team = nullptr;         ///< runs the call in shared memory; else null
  shared_memory::Shape shape = {};
  std::function<Status()> before_end = {};  ///< of a call that succeeds; what it uses, the reduction keeps
};

/// Whether a plan runs on a scaled copy of the input, and so never in place. (Two ranks have no partial
/// sums.)
inline bool is_scaled_average(ReduceOp op, DType dtype, std::size_t ranks) {
  return op == ReduceOp::average && ranks > 2 && kernels::is_scaled(dtype);
}

/// OperationSpec::source of a receive that takes the first message of its tag from any rank, and of an
/// operation that is not a receive.
inline constexpr int kAnySource = -1;
inline constexpr int kNoSource = -2;

/// All that an operation needs to run. Built before any byte moves.
struct OperationSpec {
  const PreparedCall* prepared = nullptr;  ///< owned by a shared_ptr
  Group* group = nullptr;                  ///< the communicator; open
  const void* input = nullptr;
  void* output = nullptr;
  Reduction reduction = ReduceOp::sum;
  transport::Signature signature;
  std::uint64_t sequence = 0;  ///< as Tag::sequence; for a receive only the tag, the engine adds the number
  std::uint64_t call = 0;      ///< the collective's number, for messages; 0 for send and recv
  std::chrono::nanoseconds timeout{};  ///< longest time without progress
  const Listed* listed = nullptr;      ///< null if input and output are in one piece
  int source = kNoSource;              ///< of a receive: the communicator's rank that sends, or kAnySource
  int probed = kNoSource;              ///< of a probe: as `source`, which is kAnySource then
  bool counts = true;                  ///< appears in counters and the timeline

  const schedule::CallKey& key() const { return prepared->key; }
  const std::vector<int>& ranks() const { return group->peers; }
  shared_memory::Team* team() const { return prepared->team; }
};

/// A call in flight, which a Work holds. An Executor runs it, under the Engine's lock. What is documented
/// with "Any thread" may be called without the lock.
class Operation {
 public:
  explicit Operation(std::weak_ptr<Engine> owner, bool is_watch = false)
      : owner_(std::move(owner)), is_watch_(is_watch) {}
  virtual ~Operation() = default;
  Operation(const Operation&) = delete;
  Operation& operator=(const Operation&) = delete;

  /// Any thread.
  bool done() const noexcept { return done_.load(std::memory_order_acquire); }
  /// Any thread, once done(): how it ended and how long it took.
  const Status& status() const noexcept { return status_; }
  std::chrono::nanoseconds duration() const noexcept {
    return done() ? ended_ - started_ : std::chrono::nanoseconds(0);
  }
  /// Any thread: a forked child's copy, which never gets done.
  bool is_forked_copy() const noexcept { return !home_.is_here() && !done(); }
  bool is_here() const noexcept { return home_.is_here(); }
  Status refusal() const { return home_.refusal("this operation"); }
  /// Any thread: null once the engine is being destroyed, which ends all of its operations.
  std::shared_ptr<Engine> engine() const noexcept { return owner_.lock(); }
  /// Any thread, once done(): the communicator's rank from which a message came; negative without one.
  int source() const noexcept { return source_; }

  const OperationSpec& spec() const noexcept { return spec_; }
  /// A caller may ask for its duration.
  bool is_timed() const noexcept { return is_timed_; }
  Clock::time_point started() const noexcept { return started_; }
  Clock::time_point& last_progress() noexcept { return last_progress_; }
  /// The schedule's first unfinished step, -1 when there is none.
  virtual int waiting_step() const { return -1; }
  /// Communicator ranks for which it waits.
  virtual std::vector<int> waiting_for() const = 0;
  /// It cannot end without something from this rank, or for it.
  virtual bool needs(int rank) const = 0;
  /// No executor runs it: see Engine::watch().
  bool is_watch() const noexcept { return is_watch_; }
  /// It waits for its turn behind another operation.
  virtual bool is_behind() const { return false; }
  /// A receive from any rank for which no message has come.
  bool is_unmatched() const noexcept { return source_ == kAnySource; }

  /// Any thread: as Work::algorithm().
  virtual std::string algorithm() const { return spec_.prepared->algorithm; }
  /// Any thread: as Work::order(), but returns false where the caller must wait until it is done.
  virtual bool order(void* /*stream*/) { return false; }

  /// --- For the engine and its executors. ---
  void take(const OperationSpec& spec, bool is_timed);
  /// If it has not started.
  void start_clock();
  void touch(Clock::time_point now) noexcept { last_progress_ = now; }
  /// The end() of one that has succeeded so far.
  void succeed(Clock::time_point when) {
    if (prepared_->before_end != nullptr) [[unlikely]]
      return end(prepared_->before_end(), when);
    end(Status(), when);
  }
  void end(Status status, Clock::time_point when);
  /// Signals `completion` at the end, unless forget() comes first.
  void notify(Completion& completion) { completions_.push_back(&completion); }
  void forget(const Completion& completion) { std::erase(completions_, &completion); }
  /// What to call once it is done: the engine takes that at the end.
  Callbacks::Entries& callbacks() noexcept { return callbacks_; }
  /// Gives back what an operation must not hold while it waits in the pool: memory that other operations
  /// need, and a custom reduction, which the caller expects to be destroyed.
  virtual void give_back_memory() {
    if (spec_.reduction.owns()) spec_.reduction = ReduceOp::sum;
  }

 protected:
  OperationSpec spec_;
  Listed listed_;                                 ///< a copy of what spec_.listed named
  std::shared_ptr<const PreparedCall> prepared_;  ///< keeps spec_.prepared alive
  int source_ = kNoSource;  ///< spec_.source, and the rank whose message a receive from any rank has matched

 private:
  friend ActiveOperations;

  const HomeProcess home_;
  std::weak_ptr<Engine> owner_;
  const bool is_watch_;
  std::shared_ptr<Operation> active_;  ///< this operation, while ActiveOperations has it
  Operation* older_ = nullptr;         ///< its neighbours there
  Operation* newer_ = nullptr;
  bool is_timed_ = false;
  Clock::time_point started_;
  Clock::time_point last_progress_;
  std::vector<Completion*> completions_;  ///< of threads to wake at the end
  Callbacks::Entries callbacks_;
  Clock::time_point ended_;
  Status status_;
  // Stored with release after status_ and ended_, loaded with acquire by the threads that then read them
  // without the lock. Reset, relaxed, before any thread but the caller's has the operation.
  std::atomic<bool> done_{false};
};

/// Engine::watch().
class Watch final : public Operation {
 public:
  /// `rank`: this one, of the engine.
  Watch(std::weak_ptr<Engine> owner, int rank) : Operation(std::move(owner), true), rank_(rank) {}
  std::vector<int> waiting_for() const override;
  bool needs(int) const override { return true; }

 private:
  const int rank_;
};

}  // namespace kolo::engine
