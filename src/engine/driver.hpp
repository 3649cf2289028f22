// Driver: decides which thread makes progress, and when that thread spins or sleeps.
#pragma once

#include <sched.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <span>

#include "base/core_loss.hpp"
#include "base/deadline.hpp"
#include "base/service_thread.hpp"
#include "engine/backoff.hpp"

namespace kolo::engine {

/// What a Driver drives. All functions but sleep() and nap() are called under the Driver's lock.
class Driven {
 public:
  virtual ~Driven() = default;
  /// Moves what can move now; returns whether anything did. `system_calls`: also where a poll costs one.
  virtual bool poll(bool system_calls) = 0;
  /// Checks deadlines and peers. Called before each sleep, and now and then while data moves.
  virtual void tick() = 0;
  /// Whether a thread must drive soon.
  virtual bool has_work() const = 0;
  /// When the oldest operation in flight has started; nothing if there is none.
  virtual std::optional<Clock::time_point> oldest_start() const = 0;
  /// Bytes whose pace the network sets.
  virtual std::uint64_t bytes_streamed() const = 0;
  /// Share of its core that this thread lacks, as core_loss() has it.
  virtual double lost(Clock::time_point now) const { return core_loss(now); }
  /// Whether this thread should leave the core to another rank. Adds the cores of all ranks to `taken`.
  virtual bool shares_core(int core, cpu_set_t& taken) = 0;
  /// Returns false if there is something to do: then sleep() does not follow. woken() follows in any case.
  virtual bool prepare_to_sleep() = 0;
  /// Returns the sources of news, for woken(), after interrupt() or the time. One thread at a time.
  virtual std::span<const std::uint32_t> sleep(int timeout_ms) = 0;
  virtual void woken(std::span<const std::uint32_t> sources, Clock::time_point idle_since) = 0;
  /// Whether a thread that waits may nap: nothing but one number in shared memory must be watched meanwhile.
  virtual bool can_nap() const = 0;
  /// Returns false if the number has changed: then nap() does not follow. woken() follows in any case.
  virtual bool prepare_to_nap() = 0;
  /// Returns whether the number has changed: after that, interrupt() or the time. One thread at a time.
  virtual bool nap(std::chrono::nanoseconds longest) = 0;
  /// Ends the current sleep() or nap(), or the next one.
  virtual void interrupt() = 0;
  /// A function above has thrown std::bad_alloc.
  virtual void out_of_memory() = 0;
};

/// Owns the lock of what it drives. The first thread that waits becomes the driver until its own wait is
/// over. The other waiting threads sleep until it hands over. While no thread waits, the progress thread
/// drives.
class Driver {
 public:
  using Stop = std::function<bool()>;

  Driver(Driven& driven, Backoff& backoff) : driven_(driven), backoff_(backoff) {}
  /// Starts the progress thread.
  void start();
  /// Under the lock: lets the progress thread end. join() follows.
  void stop();
  void join() { thread_.join(); }

  /// Takes the lock. A driver that spins lets in the threads that want it.
  std::unique_lock<std::mutex> enter() const;
  /// Polls once, unless another thread has the lock or drives. Takes the lock.
  void poll_once();

  // All that follow are called under the lock.
  bool is_stopping() const noexcept { return stopping_; }
  /// No thread drives.
  bool is_free() const noexcept { return role_ == Role::none; }
  /// A thread that waits drives: it polls soon.
  bool has_caller() const noexcept { return role_ == Role::caller || role_ == Role::callbacks; }
  /// Another thread wants the lock.
  bool is_wanted() const noexcept { return entering_.load(std::memory_order_relaxed) > 0; }
  /// Drives, or sleeps while another thread drives, until `stop` (true) or the deadline (false).
  bool run_until(std::unique_lock<std::mutex>& lock, const Deadline& deadline, const Stop& stop);
  /// For the thread of the callbacks: drives while no thread that waits does, until `stop`.
  void drive_for_callbacks(std::unique_lock<std::mutex>& lock, const Stop& stop);
  /// A callback waits for an operation that has just started: drive_for_callbacks() may spin for it.
  void expect_callback() { last_expected_ = Clock::now(); }
  /// There is work, and the caller does not wait for it.
  void leave_to_progress_thread();
  /// Wakes a driver that sleeps.
  void kick();
  /// What a thread waits for may have happened.
  void notify_waiting() {
    if (waiting_callers_ > 0) changed_.notify_all();
  }

 private:
  enum class Role { none, caller, callbacks, progress_thread };

  struct Entrance;
  void enter(std::unique_lock<std::mutex>& lock) const;
  void drive(Role role, std::unique_lock<std::mutex>& lock, const Deadline& deadline, const Stop& stop);
  void drive_on(std::unique_lock<std::mutex>& lock, const Deadline& deadline, const Stop& stop);
  bool sleep(std::unique_lock<std::mutex>& lock, const Deadline& deadline, Clock::time_point idle_since,
             bool naps);
  bool keep_house(Clock::time_point now, const Deadline& deadline);
  void leave_shared_core();
  void progress_thread();

  Driven& driven_;
  Backoff& backoff_;
  mutable std::mutex mutex_;
  // Number of threads that want mutex_. Relaxed: a hint, the mutex orders.
  mutable std::atomic<int> entering_{0};
  std::condition_variable_any changed_;  // see notify_waiting(), or the driver has left
  std::condition_variable_any idle_;     // for the progress thread
  Role role_ = Role::none;               // of the thread that drives
  int waiting_callers_ = 0;
  bool sleeping_ = false;
  bool woken_ = false;               // since the driver fell asleep
  bool resting_ = false;             // the progress thread, until it is woken
  bool stopping_ = false;            // the progress thread ends
  std::uint64_t left_behind_ = 0;    // how often callers have left work to the progress thread
  Clock::time_point last_expected_;  // see expect_callback()
  Clock::time_point last_driven_ = Clock::now();
  Clock::time_point last_move_;  // to another core
  Clock::time_point last_tick_ = Clock::now();
  ServiceThread thread_;
};

}  // namespace kolo::engine
