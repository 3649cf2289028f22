// Making progress: which thread drives, when it spins and when it sleeps.
#include <sched.h>

#include <algorithm>
#include <new>
#include <utility>

#include "base/cores.hpp"
#include "engine/arithmetic.hpp"
#include "engine/engine.hpp"
#include "engine/relax.hpp"

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
constexpr auto kBetweenMoves = std::chrono::milliseconds(5);
constexpr std::chrono::nanoseconds kSpinBesideCallers = std::chrono::microseconds(100);
constexpr std::chrono::nanoseconds kSpinBesideNeighbour = std::chrono::microseconds(200);
constexpr int kPollsBetweenLooks = 64;
constexpr int kSpinsBetweenYields = 16;

}  // namespace

std::unique_lock<std::mutex> Engine::enter() const {
  std::unique_lock lock(mutex_, std::defer_lock);
  enter(lock);
  return lock;
}

/// The lock holder yields to the threads counted in `entering_`. A thread that only blocked on the mutex
/// would be woken in vain each time a caller releases and retakes it.
void Engine::enter(std::unique_lock<std::mutex>& lock) const {
  if (lock.try_lock()) return;
  entering_.fetch_add(1, std::memory_order_relaxed);
  lock.lock();
  entering_.fetch_sub(1, std::memory_order_relaxed);
}

/// Whether a thread must drive soon: there is an active operation, or a link with bytes that had no room.
bool Engine::has_work() const {
  return !active_.empty() || peers_.want_write();
}

bool Engine::wait(const Operation& operation, const Deadline& deadline) {
  if (operation.done()) return true;
  auto lock = enter();
  return wait_until(lock, deadline, [&] { return operation.done(); });
}

bool Engine::wait_any(std::span<const Operation* const> operations, const Deadline& deadline) {
  auto lock = enter();
  return wait_until(lock, deadline, [&] {
    return std::ranges::any_of(operations, [](const Operation* operation) { return operation->done(); });
  });
}

bool Engine::test(const Operation& operation) {
  if (operation.done()) return true;
  std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock.owns_lock() || driver_ != Driver::none) return operation.done();
  int polls = 0;  // calls of the condition: before driving, before the only poll, after it
  wait_until(lock, Deadline::never(), [&] { return operation.done() || ++polls > 2; });
  return operation.done();
}

bool Engine::notify(Operation& operation, Completion& completion) {
  const auto lock = enter();
  if (operation.done()) return false;
  operation.completions_.push_back(&completion);
  if (driver_ == Driver::none) hand_to_progress_thread();
  return true;
}

void Engine::forget(Operation& operation, const Completion& completion) {
  const auto lock = enter();
  std::erase(operation.completions_, &completion);
}

bool Engine::wait_until(std::unique_lock<std::mutex>& lock, const Deadline& deadline,
                        const std::function<bool()>& stop) {
  while (!stop()) {
    if (deadline.passed()) return false;
    if (driver_ == Driver::none) {
      {
        const DefaultArithmetic arithmetic;
        driver_ = Driver::caller;
        struct Leave {
          Driver& driver;
          ~Leave() { driver = Driver::none; }
        } leave{driver_};
        drive(lock, deadline, stop);
      }
      if (waiting_callers_ > 0) changed_.notify_all();
      if (has_work()) hand_to_progress_thread();
    } else {
      ++waiting_callers_;
      if (driver_ == Driver::progress_thread && sleeping_) peers_.wake();
      changed_.wait_for(lock, std::min<std::chrono::nanoseconds>(deadline.left(), std::chrono::seconds(1)));
      --waiting_callers_;
      // The driver may have left meanwhile.
      const bool is_last = driver_ == Driver::none && waiting_callers_ == 0;
      if (is_last && (stop() || deadline.passed()) && has_work()) hand_to_progress_thread();
    }
  }
  return true;
}

void Engine::hand_to_progress_thread() {
  ++left_behind_;
  if (std::exchange(resting_, false)) idle_.notify_one();
}

void Engine::progress_thread() {
  const DefaultArithmetic arithmetic;
  auto lock = enter();
  struct {
    const Engine& engine;
    std::unique_lock<std::mutex>& held;
    void lock() { engine.enter(held); }
    void unlock() { held.unlock(); }
  } entrance{*this, lock};
  std::uint64_t seen = 0;  // of left_behind_
  bool look_again = false;
  auto burst = kShortestBurst;
  Clock::time_point heard{};  // when this thread last saw operations left behind
  while (!stopping_) {
    const auto begin = Clock::now();
    const auto is_driven = [this] { return driver_ != Driver::none || waiting_callers_ > 0; };
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
      const bool is_moving = !active_.empty() && now < active_.front()->started() + kOld && !is_unread;
      look_again = is_moving && !is_driven();
      if (is_driven() || is_moving || (!has_work() && !is_unread)) {
        burst = std::min(burst * 2, kLongestBurst);
        continue;
      }
      burst = std::max(burst / 2, kShortestBurst);
    } else if (is_driven() || (!has_work() && begin < last_driven_ + kHandBack)) {
      resting_ = true;
      idle_.wait_until(entrance, (is_driven() ? begin : last_driven_) + kHandBack);
      resting_ = false;
      continue;
    } else {
      burst = kShortestBurst;  // no caller has left work lately, so none is about to come back
    }
    driver_ = Driver::progress_thread;
    drive(lock, Deadline::never(), [&] { return stopping_ || waiting_callers_ > 0; });
    driver_ = Driver::none;
    changed_.notify_all();
  }
}

void Engine::drive(std::unique_lock<std::mutex>& lock, const Deadline& deadline,
                   const std::function<bool()>& stop) {
  try {
    drive_on(lock, deadline, stop);
  } catch (const std::bad_alloc&) {
    if (!lock.owns_lock()) enter(lock);
    sleeping_ = false;
    note_no_memory();
    propagate_failure();
  }
  last_driven_ = Clock::now();
}

void Engine::drive_on(std::unique_lock<std::mutex>& lock, const Deadline& deadline,
                      const std::function<bool()>& stop) {
  // While large messages stream over a network, the wire sets the pace. A driver that spins for each packet
  // burns a core and finishes no sooner. Spinning is for short messages.
  std::uint64_t streamed_before = peers_.payload_on_sockets();
  bool streaming = false;
  bool overslept = false;  // the last sleep timed out: a peer that is so late may stay late for longer
  Clock::time_point idle_since{};
  int polls = 0;
  int busy_polls = 0;
  int spins = 0;
  while (!stop()) {
    const bool moved = poll(peers_.has_descriptors() || ++polls % kPollsBetweenLooks == 0);
    propagate_failure();
    if (moved && entering_.load(std::memory_order_relaxed) == 0) {
      idle_since = {};
      overslept = false;
      if (++busy_polls % kPollsBetweenLooks != 0) continue;
      check_deadlines();
      if (deadline.passed()) break;
      continue;
    }
    if (stop()) break;
    if (entering_.load(std::memory_order_relaxed) > 0) {
      lock.unlock();
      std::this_thread::yield();
      lock.lock();
      continue;
    }
    const auto now = Clock::now();
    if (idle_since == Clock::time_point{}) {
      idle_since = now;
      const std::uint64_t before = std::exchange(streamed_before, peers_.payload_on_sockets());
      streaming = before != streamed_before;
    }
    // Another waiting caller needs the lock to see that its operation is done.
    auto spin = waiting_callers_ == 0 ? options_.spin : std::min(options_.spin, kSpinBesideCallers);
    // Where another program wants the cores, a peer may not be running. A rank that sleeps leaves it a core.
    const bool has_neighbour = yield_.is_costly(now);
    if (has_neighbour) spin = std::min(spin, kSpinBesideNeighbour);
    if (!streaming && !overslept && now - idle_since < spin && driver_ == Driver::caller) {
      // The peer may have been put on this very core: yield, or this rank waits for it until it sleeps. If a
      // poll is a system call anyway, yielding costs little more.
      const bool is_time = ++spins % kSpinsBetweenYields == 0;
      if (is_time && deadline.passed()) break;
      if (is_time && !options_.oversubscribed) leave_shared_core();
      if (options_.oversubscribed || peers_.has_descriptors()) {
        std::this_thread::yield();
      } else if (is_time && !has_neighbour) {
        yield_();
      }
      relax();
      continue;
    }
    check_deadlines();
    propagate_failure();
    if (stop() || deadline.passed()) break;
    const std::vector<int> awaited = awaited_peers();
    overslept = !sleep(lock, deadline);
    if (!awaited.empty()) note_wait(awaited, idle_since);
    idle_since = {};
  }
}

/// Two ranks that wait for each other run so little that the scheduler may leave them on one core while
/// another core idles. The higher rank of the two moves.
void Engine::leave_shared_core() {
  transport::SharedSegment* const segment = peers_.segment();
  if (segment == nullptr) return;
  const int core = sched_getcpu();
  segment->core.store(static_cast<std::uint32_t>(core + 1), std::memory_order_relaxed);
  for (int peer = 0; peer < rank_; ++peer) {
    transport::LocalPeer* local_peer = link(peer).endpoint().local_peer();
    if (local_peer == nullptr ||
        local_peer->segment().core.load(std::memory_order_relaxed) != static_cast<std::uint32_t>(core + 1)) {
      continue;
    }
    const auto now = Clock::now();
    if (now - last_move_ < kBetweenMoves) return;
    last_move_ = now;
    leave_core(core);
    return;
  }
}

bool Engine::poll(bool look_at_descriptors) {
  bool moved = false;
  for (const NativeGroup& native : groups_) {
    if (native.group->is_busy()) moved = native.group->advance() || moved;
  }
  return peers_.poll(look_at_descriptors) || moved;
}

/// Returns whether there is something to do: else only time has passed.
bool Engine::sleep(std::unique_lock<std::mutex>& lock, const Deadline& deadline) {
  transport::SharedSegment* const segment = peers_.segment();
  bool something_to_do = false;
  if (segment != nullptr) {
    // `asleep` is odd while this rank sleeps, and another number for each sleep: a publisher rings once for
    // each sleep. After the fence, which pairs with that of Group::tell(), the groups poll once more.
    segment->asleep.store(sleeps_ += 1, std::memory_order_relaxed);
    std::atomic_thread_fence(std::memory_order_seq_cst);
    for (const NativeGroup& native : groups_) {
      if (native.group->is_busy()) something_to_do = native.group->advance() || something_to_do;
      native.group->tell();
    }
  }
  something_to_do = something_to_do || !peers_.arm();
  if (!something_to_do) {
    sleeping_ = true;
    woken_ = false;
    const int timeout_ms = std::max(1, deadline.left_ms(active_.empty() ? 1000 : 20));
    lock.unlock();
    const auto woken = peers_.wait(timeout_ms);
    enter(lock);
    sleeping_ = false;
    for (const std::uint32_t number : woken) peers_.woken(number);
    something_to_do = !woken.empty() || woken_;
  }
  if (segment != nullptr) segment->asleep.store(sleeps_ += 1, std::memory_order_relaxed);
  peers_.disarm();
  return something_to_do;
}

}  // namespace kolo::engine
