// Which thread drives, when it spins and when it sleeps.
#include "engine/driver.hpp"

#include <sched.h>

#include <algorithm>
#include <cstdlib>
#include <new>
#include <thread>
#include <utility>

#include "base/arithmetic.hpp"
#include "base/cores.hpp"

namespace kolo::engine {
namespace {

constexpr auto kHandBack = std::chrono::milliseconds(50);  // how long callers keep the progress thread away
// A caller that starts several operations soon waits for them and drives them then. Until then the progress
// thread would only take a core and the lock from the caller. So the progress thread first lets a burst of
// calls pass. The time doubles each time the thread wakes up in vain, and halves each time it is needed.
constexpr std::chrono::microseconds kShortestBurst{50};
constexpr std::chrono::microseconds kLongestBurst{1000};
constexpr std::chrono::microseconds kOld{100};  // age of an operation that its caller does not drive
constexpr int kMostBusy = 8;
constexpr int kPollsBetweenLooks = 64;  // at the clock, and at what a poll takes a system call for

/// The first allocation of a thread gives it an arena. glibc lets a thread without one use no other, so the
/// memory that out_of_memory() frees could not help it.
void take_arena() {
  void* volatile first = std::malloc(1);  // volatile: else the compiler leaves both calls out
  std::free(first);
}

}  // namespace

std::unique_lock<std::mutex> Driver::enter() const {
  std::unique_lock lock(mutex_, std::defer_lock);
  enter(lock);
  return lock;
}

/// The lock holder yields to the threads counted in `entering_`. A thread that only blocked on the mutex
/// would be woken in vain each time a caller releases and retakes it.
void Driver::enter(std::unique_lock<std::mutex>& lock) const {
  if (lock.try_lock()) return;
  entering_.fetch_add(1, std::memory_order_relaxed);
  lock.lock();
  entering_.fetch_sub(1, std::memory_order_relaxed);
}

/// How a thread that waits for a condition variable takes the lock again.
struct Driver::Entrance {
  const Driver& driver;
  std::unique_lock<std::mutex>& held;
  void lock() { driver.enter(held); }
  void unlock() { held.unlock(); }
};

void Driver::start() {
  thread_ = ServiceThread([this] { progress_thread(); });
}

void Driver::stop() {
  stopping_ = true;
  idle_.notify_all();
  driven_.interrupt();
}

bool Driver::run_until(std::unique_lock<std::mutex>& lock, const Deadline& deadline, const Stop& stop) {
  while (!stop()) {
    if (deadline.passed()) return false;
    if (is_free()) {
      {
        const DefaultArithmetic arithmetic;
        drive(Role::caller, lock, deadline, stop);
      }
      notify_waiting();
      if (driven_.has_work()) leave_to_progress_thread();
    } else {
      ++waiting_callers_;
      if (role_ != Role::caller) kick();
      Entrance entrance{*this, lock};
      changed_.wait_for(entrance,
                        std::min<std::chrono::nanoseconds>(deadline.left(), std::chrono::seconds(1)));
      --waiting_callers_;
      // The driver may have left meanwhile.
      const bool is_last = is_free() && waiting_callers_ == 0;
      if (is_last && (stop() || deadline.passed()) && driven_.has_work()) leave_to_progress_thread();
    }
  }
  return true;
}

/// Callers that wait also drive the operations with callbacks, and leave them to the progress thread.
void Driver::drive_for_callbacks(std::unique_lock<std::mutex>& lock, const Stop& stop) {
  Entrance entrance{*this, lock};
  ++waiting_callers_;
  while (role_ == Role::progress_thread) {
    kick();
    changed_.wait(entrance);
  }
  --waiting_callers_;
  if (!is_free() || waiting_callers_ > 0) return;
  {
    const DefaultArithmetic arithmetic;
    drive(Role::callbacks, lock, Deadline::never(), [&] { return stop() || waiting_callers_ > 0; });
  }
  notify_waiting();
  if (driven_.has_work()) leave_to_progress_thread();
}

void Driver::poll_once() {
  std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock.owns_lock() || !is_free()) return;
  int stops = 0;  // calls of the condition: before driving, before the only poll, after it
  run_until(lock, Deadline::never(), [&] { return ++stops > 2; });
}

void Driver::kick() {
  if (sleeping_ && !std::exchange(woken_, true)) driven_.interrupt();
}

void Driver::leave_to_progress_thread() {
  if (!is_free()) return;
  ++left_behind_;
  if (std::exchange(resting_, false)) idle_.notify_one();
}

void Driver::progress_thread() {
  take_arena();
  const DefaultArithmetic arithmetic;
  auto lock = enter();
  Entrance entrance{*this, lock};
  std::uint64_t seen = 0;  // of left_behind_
  bool look_again = false;
  auto burst = kShortestBurst;
  Clock::time_point heard{};  // when this thread last saw operations left behind
  while (!stopping_) {
    const auto begin = Clock::now();
    const auto is_driven = [this] { return !is_free() || waiting_callers_ > 0; };
    if (std::exchange(seen, left_behind_) != left_behind_) heard = begin;
    // For a caller, waking this thread takes longer than starting many operations. More operations mostly
    // follow, so this thread only naps for a while.
    if (look_again || begin < heard + kHandBack) {
      const auto nap = look_again ? kOld : burst;
      lock.unlock();
      // The lock holder works on the operations. Waiting for the lock would make it yield its core.
      for (int busy = 0; busy < kMostBusy; ++busy) {
        std::this_thread::sleep_for(nap);
        if (lock.try_lock()) break;
      }
      if (!lock.owns_lock()) enter(lock);
      // Callers that wait for their operations also drive the older ones, so the oldest one stays young. But
      // some thread must read the peers' messages now and then.
      const auto now = Clock::now();
      const bool is_unread = now >= last_driven_ + kHandBack;
      const auto oldest = driven_.oldest_start();
      const bool is_moving = oldest && now < *oldest + kOld && !is_unread;
      look_again = is_moving && !is_driven();
      if (is_driven() || is_moving || (!driven_.has_work() && !is_unread)) {
        burst = std::min(burst * 2, kLongestBurst);
        continue;
      }
      burst = std::max(burst / 2, kShortestBurst);
    } else if (is_driven() || (!driven_.has_work() && begin < last_driven_ + kHandBack)) {
      resting_ = true;
      idle_.wait_until(entrance, (is_driven() ? begin : last_driven_) + kHandBack);
      resting_ = false;
      continue;
    } else {
      burst = kShortestBurst;  // no caller has left work lately, so none is about to come back
    }
    drive(Role::progress_thread, lock, Deadline::never(), [&] { return stopping_ || waiting_callers_ > 0; });
    notify_waiting();
  }
}

void Driver::drive(Role role, std::unique_lock<std::mutex>& lock, const Deadline& deadline,
                   const Stop& stop) {
  role_ = role;
  const struct Leave {
    Role& role;
    ~Leave() { role = Role::none; }
  } leave{role_};
  try {
    drive_on(lock, deadline, stop);
  } catch (const std::bad_alloc&) {
    if (!lock.owns_lock()) enter(lock);
    sleeping_ = false;
    driven_.out_of_memory();
  }
  last_driven_ = Clock::now();
}

void Driver::drive_on(std::unique_lock<std::mutex>& lock, const Deadline& deadline, const Stop& stop) {
  // While large messages stream over a network, the wire sets the pace. A driver that spins for each packet
  // burns a core and finishes no sooner. Spinning is for short messages.
  std::uint64_t streamed_before = driven_.bytes_streamed();
  Backoff::Wait wait;
  unsigned polls = 0;
  unsigned moves = 0;
  while (!stop()) {
    const bool moved = driven_.poll(!backoff_.polls_are_free() || ++polls % kPollsBetweenLooks == 0);
    const bool is_wanted = this->is_wanted();
    if (moved) wait = {};
    if (moved && !is_wanted && ++moves % kPollsBetweenLooks != 0) continue;
    const auto now = Clock::now();
    if (now - last_tick_ >= Backoff::kHousekeeping && !keep_house(now, deadline)) break;
    if (stop()) break;
    if (is_wanted) {
      lock.unlock();
      std::this_thread::yield();
      lock.lock();
      continue;
    }
    if (moved) continue;
    if (!wait.has_begun()) {
      wait.begin = now;
      const std::uint64_t before = std::exchange(streamed_before, driven_.bytes_streamed());
      wait.streams = before != streamed_before;
    }
    const bool may_spin =
        role_ == Role::caller || (role_ == Role::callbacks && backoff_.is_fresh(last_expected_, now));
    const auto step =
        !may_spin ? Backoff::Step::sleep : backoff_.next(wait, now, {driven_.lost(now), driven_.can_nap()});
    if (step == Backoff::Step::look) leave_shared_core();
    if (step == Backoff::Step::yield) yield(backoff_);
    if (step != Backoff::Step::nap && step != Backoff::Step::sleep) {
      relax();
      continue;
    }
    if (last_tick_ != now && !keep_house(now, deadline)) break;
    if (stop()) break;
    wait.overslept = !sleep(lock, deadline, wait.begin, step == Backoff::Step::nap);
    wait.begin = {};
  }
}

/// Returns whether there is time left.
bool Driver::keep_house(Clock::time_point now, const Deadline& deadline) {
  last_tick_ = now;
  driven_.tick();
  return !deadline.passed();
}

/// Two ranks that wait for each other run so little that the scheduler may leave them on one core while
/// another core idles.
void Driver::leave_shared_core() {
  const int core = sched_getcpu();
  cpu_set_t taken;
  CPU_ZERO(&taken);
  if (!driven_.shares_core(core, taken)) return;
  const auto now = Clock::now();
  if (now - last_move_ < Backoff::kBetweenMoves) return;
  last_move_ = now;
  leave_cores(taken);
}

/// Returns whether there is something to do: else only time has passed.
bool Driver::sleep(std::unique_lock<std::mutex>& lock, const Deadline& deadline, Clock::time_point idle_since,
                   bool naps) {
  bool something_to_do = !(naps ? driven_.prepare_to_nap() : driven_.prepare_to_sleep());
  std::span<const std::uint32_t> sources;
  if (!something_to_do) {
    sleeping_ = true;
    woken_ = false;
    const int timeout_ms = std::max(1, deadline.left_ms(driven_.oldest_start() ? 20 : 1000));
    lock.unlock();
    bool has_changed = false;
    if (naps) {
      has_changed = driven_.nap(std::min<std::chrono::nanoseconds>(Backoff::kLongestNap, deadline.left()));
    } else {
      sources = driven_.sleep(timeout_ms);
    }
    enter(lock);
    sleeping_ = false;
    something_to_do = has_changed || !sources.empty() || woken_;
  }
  driven_.woken(sources, idle_since);
  return something_to_do;
}

}  // namespace kolo::engine
