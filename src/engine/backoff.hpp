// Backoff: what a rank does between two polls of what it waits for. All constants of waiting are here, except
// those of the progress thread, which waits for callers (driver.cpp).
#pragma once

#include <algorithm>
#include <chrono>
#include <thread>

#include "base/deadline.hpp"

namespace kolo::engine {

/// Decides, and does nothing itself: it reads no clock and makes no system call.
///
/// A rank with a core of its own spins, and does not yield: since Linux 6.18 a yield beside another program
/// gives up the rest of the time slice, a millisecond or more. Spinning beside one costs half of the time.
/// How long a rank spins depends on the share of its core that it lacks: where that is s, each spun
/// nanosecond takes s / (1 - s) of one from this rank or a peer later, and a rank spins for the price of a
/// sleep. So a wait costs at most twice the least that was possible (Karlin, Li, Manasse, Owicki, "Empirical
/// studies of competitive spinning for a shared-memory multiprocessor", SOSP 1991, section 2). A rank never
/// spins for less than a sleep takes: ranks that did would wake each other in each call.
///
/// Ranks that share cores, and ranks whose polls are system calls, yield between two polls. Two ranks a core
/// measure their yields, and do without them for a while after two that took a time slice, not a peer's turn:
/// the longer, the longer the other program has been there. The turns of more ranks cannot be told from
/// slices.
class Backoff {
 public:
  using Duration = std::chrono::nanoseconds;
  struct Setting {
    Duration longest_spin{};     ///< before a rank sleeps
    int ranks_a_core = 1;        ///< where it is more, ranks yield between polls
    bool polls_are_free = true;  ///< no poll takes a system call
  };
  /// `look`: as pause, and look whether a peer waits on this very core. `nap`: sleep until one number in
  /// shared memory changes. `sleep`: until there is news of any kind.
  enum class Step { poll, pause, look, yield, nap, sleep };
  /// Since the last poll that moved something.
  struct Wait {
    Clock::time_point begin{};
    int polls = 0;
    bool overslept = false;  ///< a sleep has timed out: a peer that is so late may stay late for longer
    bool streams = false;    ///< the network sets the pace of what is awaited

    bool has_begun() const { return begin != Clock::time_point{}; }
  };
  struct Seen {
    double lost = 0;       ///< share of its core that this thread lacks, from 0 to 1: see core_loss()
    bool can_nap = false;  ///< nothing but one number in shared memory must be watched meanwhile
  };

  static constexpr std::chrono::milliseconds kHousekeeping{1};  ///< between checks of deadlines and peers
  static constexpr std::chrono::milliseconds kBetweenMoves{5};  ///< to another core
  /// A rank that naps learns of messages, and of the end of a peer, only after this time.
  static constexpr std::chrono::milliseconds kLongestNap{10};

  explicit Backoff(const Setting& setting) : setting_(setting) {}

  bool shares_cores() const { return setting_.ranks_a_core > 1; }
  bool polls_are_free() const { return setting_.polls_are_free; }

  /// Before poll `i`, from 0, of a wait that reads no clock, because many calls are over sooner than that is
  /// worth: some two microseconds, or turns of the other ranks on this core. `sleep`: this was the last poll.
  Step first(int i) const {
    if (shares_cores()) return i == 0 ? Step::poll : i < kFirstYields ? Step::yield : Step::sleep;
    return i <= kEagerPolls ? Step::poll : i < kFirstPolls ? Step::pause : Step::sleep;
  }

  bool measures_yields() const { return setting_.ranks_a_core == 2; }
  bool may_yield(Clock::time_point now) const { return now >= costly_until_; }
  /// A measured yield took from `begin` to `end`.
  void yielded(Clock::time_point begin, Clock::time_point end) {
    if (end - begin <= kLongestTurn) return;
    const bool is_single = begin >= costly_until_ + kShortestMemory;
    memory_ = is_single ? Duration::zero() : std::clamp(2 * memory_, kShortestMemory, kLongestMemory);
    costly_until_ = end + memory_;
  }

  /// After a poll in which nothing moved.
  Step next(Wait& wait, Clock::time_point now, const Seen& seen) const {
    // Two ranks a core wait in short turns of each other, for less than a nap takes with its wake-up.
    const bool yields_first = measures_yields() && may_yield(now) && now - wait.begin < kSleep;
    if (seen.can_nap && !wait.overslept && !yields_first) return Step::nap;
    if (wait.overslept || wait.streams || now - wait.begin >= longest_spin(seen.lost)) return Step::sleep;
    if (!may_yield(now)) return Step::sleep;
    ++wait.polls;
    if (shares_cores() || !setting_.polls_are_free) return Step::yield;
    return wait.polls % kPollsBetweenLooks == 0 ? Step::look : Step::pause;
  }

  /// Whether a thread may still spin for an operation that has started at `start`.
  bool is_fresh(Clock::time_point start, Clock::time_point now) const {
    return now - start < setting_.longest_spin;
  }
  /// How long a wait polls before it sleeps.
  Duration longest_spin(double lost) const {
    if (shares_cores()) return setting_.longest_spin;
    // Each yield beside a program that wants the core costs a time slice.
    if (!polls_are_free()) return lost < kMostLostToYield ? setting_.longest_spin : Duration::zero();
    const double worth = static_cast<double>(kSleep.count()) * (1 - lost) / std::max(lost, kLeastLost);
    const Duration longest(static_cast<Duration::rep>(worth));
    return std::min(setting_.longest_spin, std::max(longest, kSleep));
  }

 private:
  static constexpr int kEagerPolls = 10;
  static constexpr int kFirstPolls = 100;
  static constexpr int kFirstYields = 20;
  static constexpr int kPollsBetweenLooks = 16;
  static constexpr Duration kSleep = std::chrono::microseconds(50);  // with the wake-up
  static constexpr double kLeastLost = 1e-4;
  static constexpr double kMostLostToYield = 0.4;
  static constexpr Duration kLongestTurn = std::chrono::milliseconds(1);
  static constexpr Duration kShortestMemory = std::chrono::milliseconds(100);
  static constexpr Duration kLongestMemory = std::chrono::milliseconds(1000);

  const Setting setting_;
  Clock::time_point costly_until_{};  // after a single long yield: its end
  Duration memory_{};
};

/// Between two polls of memory that another core writes.
inline void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

/// Gives the core to a thread that waits for it. Returns false, and does not, where that would cost too much.
inline bool yield(Backoff& backoff) {
  const auto begin = backoff.measures_yields() ? Clock::now() : Clock::time_point::max();
  if (!backoff.may_yield(begin)) return false;
  std::this_thread::yield();
  if (backoff.measures_yields()) backoff.yielded(begin, Clock::now());
  return true;
}

}  // namespace kolo::engine
