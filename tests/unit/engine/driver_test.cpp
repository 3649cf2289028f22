// Which thread makes progress, and when it spins or sleeps: what the Driver drives is played.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <new>
#include <optional>
#include <regex>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "engine/driver.hpp"

namespace kolo::test {
namespace {

using namespace std::chrono_literals;

constexpr auto kLong = std::chrono::hours(1);

/// Writes down the functions that are called, but for questions, and sleeps until it is interrupted.
class PlayedWork final : public engine::Driven {
 public:
  bool poll(bool system_calls) override {
    log += system_calls ? 'P' : 'p';
    polling_thread = std::this_thread::get_id();
    return on_poll ? on_poll() : false;
  }
  void tick() override { ++ticks; }
  bool has_work() const override { return work; }
  std::optional<Clock::time_point> oldest_start() const override { return oldest; }
  std::uint64_t bytes_streamed() const override { return streamed += streams; }
  double lost(Clock::time_point) const override { return 0; }  // whatever else this machine does
  bool shares_core(int, cpu_set_t&) override {
    ++core_checks;
    return false;
  }
  bool prepare_to_sleep() override {
    log += 'a';
    return is_quiet;
  }
  std::span<const std::uint32_t> sleep(int timeout_ms) override {
    slept_ms = timeout_ms;
    if (on_sleep) on_sleep();
    std::unique_lock lock(mutex);
    is_asleep = true;
    changed.notify_all();
    if (waits_for_interrupt) changed.wait(lock, [&] { return interrupts > seen; });
    seen = interrupts;
    is_asleep = false;
    return news;
  }
  bool can_nap() const override { return may_nap; }
  bool prepare_to_nap() override {
    log += 'n';
    return is_quiet;
  }
  bool nap(std::chrono::nanoseconds longest) override {
    napped = longest;
    return has_changed;
  }
  void woken(std::span<const std::uint32_t> sources, Clock::time_point) override {
    log += "w" + std::to_string(sources.size());
  }
  void interrupt() override {
    const std::lock_guard lock(mutex);
    ++interrupts;
    changed.notify_all();
  }
  void out_of_memory() override { log += '!'; }

  void wait_until_asleep() {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return is_asleep; });
  }

  // Set and read under the driver's lock, or while no thread drives.
  std::string log;
  std::function<bool()> on_poll;
  std::function<void()> on_sleep;
  std::thread::id polling_thread;
  bool work = false;
  bool is_quiet = true;
  bool streams = false;
  mutable std::uint64_t streamed = 0;
  std::optional<Clock::time_point> oldest;
  std::vector<std::uint32_t> news;
  int slept_ms = 0;
  int core_checks = 0;
  int ticks = 0;
  bool may_nap = false;
  bool has_changed = true;
  std::chrono::nanoseconds napped{};
  bool waits_for_interrupt = false;

  std::mutex mutex;
  std::condition_variable changed;
  int interrupts = 0;
  int seen = 0;
  bool is_asleep = false;
};

class DriverTest : public testing::Test {
 protected:
  /// Drives until `done`.
  bool run(engine::Driver& driver, const Deadline& deadline = Deadline::never()) {
    auto lock = driver.enter();
    return driver.run_until(lock, deadline, [&] { return done; });
  }
  /// Ends run() at this poll, counted from 1; nothing moves.
  void end_at_poll(int last) {
    work.on_poll = [this, last, polls = 0]() mutable {
      done = ++polls == last;
      return false;
    };
  }

  PlayedWork work;
  bool done = false;
};

TEST_F(DriverTest, PollsUntilItsCallerIsDone) {
  engine::Backoff backoff({.longest_spin = kLong});
  engine::Driver driver(work, backoff);
  end_at_poll(3);
  EXPECT_TRUE(run(driver));
  EXPECT_EQ(work.log, "ppp");
  EXPECT_TRUE(driver.is_free());
}

TEST_F(DriverTest, DoesNotDriveBehindTheDeadline) {
  engine::Backoff backoff({});
  engine::Driver driver(work, backoff);
  EXPECT_FALSE(run(driver, Deadline::after(0ns)));
  EXPECT_EQ(work.log, "");
}

TEST_F(DriverTest, NapsInsteadOfSpinning) {
  engine::Backoff backoff({.longest_spin = kLong});
  engine::Driver driver(work, backoff);
  work.may_nap = true;
  end_at_poll(2);
  EXPECT_TRUE(run(driver));
  EXPECT_EQ(work.log, "pnw0p");
  EXPECT_EQ(work.napped, 10ms);
}

TEST_F(DriverTest, SleepsAfterANapInVain) {
  engine::Backoff backoff({.longest_spin = kLong});
  engine::Driver driver(work, backoff);
  work.may_nap = true;
  work.has_changed = false;
  work.news = {7};
  end_at_poll(3);
  EXPECT_TRUE(run(driver));
  EXPECT_EQ(work.log, "pnw0paw1p");
}

TEST_F(DriverTest, DoesNotNapIfTheNumberHasChanged) {
  engine::Backoff backoff({.longest_spin = kLong});
  engine::Driver driver(work, backoff);
  work.may_nap = true;
  work.is_quiet = false;
  end_at_poll(2);
  EXPECT_TRUE(run(driver));
  EXPECT_EQ(work.log, "pnw0p");
  EXPECT_EQ(work.napped, 0ns);
}

TEST_F(DriverTest, SleepsAfterAPollInVainIfItMayNotSpin) {
  engine::Backoff backoff({});
  engine::Driver driver(work, backoff);
  end_at_poll(2);
  EXPECT_TRUE(run(driver));
  EXPECT_EQ(work.log, "paw0p");
}

TEST_F(DriverTest, SpinsThroughManyPollsBeforeItSleeps) {
  engine::Backoff backoff({.longest_spin = kLong, .ranks_a_core = 4});
  engine::Driver driver(work, backoff);
  end_at_poll(160);
  EXPECT_TRUE(run(driver));
  EXPECT_EQ(work.log.find('a'), std::string::npos);
  EXPECT_EQ(std::ranges::count(work.log, 'P'), 2) << "every 64th poll looks at descriptors";
}

TEST_F(DriverTest, LooksForAnotherCoreWhileItSpinsUnlessRanksShareCores) {
  for (const int ranks_a_core : {1, 4}) {
    engine::Backoff backoff({.longest_spin = kLong, .ranks_a_core = ranks_a_core});
    engine::Driver driver(work, backoff);
    end_at_poll(17);
    done = false;
    EXPECT_TRUE(run(driver));
    EXPECT_EQ(work.core_checks, 1);
  }
}

TEST_F(DriverTest, EveryPollMakesSystemCallsIfSomePollNeedsThem) {
  engine::Backoff backoff({.longest_spin = kLong, .polls_are_free = false});
  engine::Driver driver(work, backoff);
  end_at_poll(3);
  EXPECT_TRUE(run(driver));
  // It also sleeps between two polls if another program wants the core.
  EXPECT_TRUE(std::regex_match(work.log, std::regex("P(aw0)?P(aw0)?P"))) << work.log;
}

TEST_F(DriverTest, DoesNotSpinWhileTheNetworkStreams) {
  engine::Backoff backoff({.longest_spin = kLong});
  engine::Driver driver(work, backoff);
  work.streams = true;
  end_at_poll(2);
  EXPECT_TRUE(run(driver));
  EXPECT_EQ(work.log, "paw0p");
}

TEST_F(DriverTest, DoesNotSpinAfterASleepWithoutNews) {
  engine::Backoff backoff({.longest_spin = kLong});
  engine::Driver driver(work, backoff);
  work.streams = true;
  work.on_sleep = [this] { work.streams = false; };
  end_at_poll(3);
  EXPECT_TRUE(run(driver));
  EXPECT_EQ(work.log, "paw0paw0p");
}

TEST_F(DriverTest, SpinsAgainAfterNews) {
  engine::Backoff backoff({.longest_spin = kLong});
  engine::Driver driver(work, backoff);
  work.streams = true;
  work.news = {7};
  work.on_sleep = [this] { work.streams = false; };
  end_at_poll(4);
  EXPECT_TRUE(run(driver));
  EXPECT_EQ(work.log, "paw1ppp");
}

TEST_F(DriverTest, PollsAgainWithoutASleepIfThereIsSomethingToDo) {
  engine::Backoff backoff({});
  engine::Driver driver(work, backoff);
  work.is_quiet = false;
  work.on_sleep = [] { ADD_FAILURE() << "it slept"; };
  end_at_poll(2);
  EXPECT_TRUE(run(driver));
  EXPECT_EQ(work.log, "paw0p");
}

TEST_F(DriverTest, SleepsShortlyOnlyWhileAnOperationIsInFlight) {
  engine::Backoff backoff({});
  engine::Driver driver(work, backoff);
  end_at_poll(2);
  EXPECT_TRUE(run(driver));
  EXPECT_EQ(work.slept_ms, 1000);
  work.oldest = Clock::now();
  end_at_poll(2);
  done = false;
  EXPECT_TRUE(run(driver));
  EXPECT_EQ(work.slept_ms, 20);
}

TEST_F(DriverTest, ChecksDeadlinesWhileDataMovesWhileItSpinsAndBeforeASleep) {
  for (const bool moves : {true, false}) {
    engine::Backoff backoff({.longest_spin = kLong});
    engine::Driver driver(work, backoff);
    work.ticks = 0;
    done = false;
    work.on_poll = [&] {
      done = work.ticks > 1;
      return moves;
    };
    EXPECT_TRUE(run(driver));
    EXPECT_EQ(work.log.find('a'), std::string::npos);
  }
  engine::Backoff backoff({});
  engine::Driver driver(work, backoff);
  work.ticks = 0;
  end_at_poll(2);
  done = false;
  work.on_sleep = [this] { EXPECT_GT(work.ticks, 0); };
  EXPECT_TRUE(run(driver));
}

TEST_F(DriverTest, PollOncePollsOnceAndDoesNotSleep) {
  engine::Backoff backoff({});
  engine::Driver driver(work, backoff);
  driver.poll_once();
  EXPECT_EQ(work.log, "p");
  const auto lock = driver.enter();
  std::thread([&] { driver.poll_once(); }).join();
  EXPECT_EQ(work.log, "p") << "another thread has the lock";
}

TEST_F(DriverTest, ALackOfMemoryIsReportedUnderTheLock) {
  engine::Backoff backoff({});
  engine::Driver driver(work, backoff);
  bool was_locked = false;
  work.on_sleep = [&] {
    done = true;
    throw std::bad_alloc();
  };
  auto lock = driver.enter();
  EXPECT_TRUE(driver.run_until(lock, Deadline::never(), [&] {
    was_locked = lock.owns_lock();
    return done;
  }));
  EXPECT_TRUE(was_locked);
  EXPECT_EQ(work.log, "pa!");
  driver.kick();
  EXPECT_EQ(work.interrupts, 0) << "it no longer counts as asleep";
}

TEST_F(DriverTest, AKickWakesASleepingDriverOnce) {
  engine::Backoff backoff({});
  engine::Driver driver(work, backoff);
  driver.kick();
  EXPECT_EQ(work.interrupts, 0);
  work.waits_for_interrupt = true;
  std::thread sleeper([&] { run(driver); });
  work.wait_until_asleep();
  {
    const auto lock = driver.enter();
    driver.kick();
    driver.kick();
    done = true;
    EXPECT_EQ(work.interrupts, 1);
  }
  sleeper.join();
}

TEST_F(DriverTest, ADriverThatSpinsLetsOtherThreadsIn) {
  engine::Backoff backoff({.longest_spin = kLong});
  engine::Driver driver(work, backoff);
  std::atomic<bool> is_spinning = false;
  work.on_poll = [&] {
    is_spinning = true;
    return false;
  };
  std::thread spinner([&] { run(driver); });
  while (!is_spinning) std::this_thread::yield();
  {
    const auto lock = driver.enter();
    done = true;
  }
  spinner.join();
}

/// Each poll finds another thread that wants the lock.
TEST_F(DriverTest, TheDeadlineHoldsWhileOtherThreadsKeepComing) {
  engine::Backoff backoff({.longest_spin = kLong});
  engine::Driver driver(work, backoff);
  std::vector<std::thread> others;
  work.on_poll = [&] {
    others.emplace_back([&] { driver.enter(); });
    while (!driver.is_wanted()) std::this_thread::yield();
    return false;
  };
  EXPECT_FALSE(run(driver, Deadline::after(10ms)));
  EXPECT_GT(work.ticks, 0);
  for (std::thread& other : others) other.join();
}

TEST_F(DriverTest, AWaitingThreadIsLetInByADriverThatSpins) {
  engine::Backoff backoff({.longest_spin = kLong});
  engine::Driver driver(work, backoff);
  std::atomic<bool> is_over = false;
  bool waits = false;
  std::thread second;
  work.on_poll = [&] {
    if (!second.joinable()) {
      second = std::thread([&] {
        auto lock = driver.enter();
        driver.run_until(lock, Deadline::never(), [&] { return std::exchange(waits, true) && is_over; });
        done = true;
      });
    }
    if (waits) {
      is_over = true;
      driver.notify_waiting();
    }
    return false;
  };
  EXPECT_TRUE(run(driver));
  second.join();
}

TEST_F(DriverTest, AWaitingThreadTakesOverWhenTheDriverIsDone) {
  engine::Backoff backoff({});
  engine::Driver driver(work, backoff);
  work.waits_for_interrupt = true;
  std::thread first([&] { run(driver); });
  work.wait_until_asleep();
  bool is_waiting = false;
  bool second_done = false;
  std::thread second([&] {
    auto lock = driver.enter();
    driver.run_until(lock, Deadline::never(), [&] {
      is_waiting = true;
      return second_done;
    });
  });
  const auto second_thread = second.get_id();
  while (true) {
    // The lock is free only while the second thread waits for the driver to leave.
    const auto lock = driver.enter();
    if (!is_waiting) continue;
    EXPECT_FALSE(driver.is_free());
    EXPECT_TRUE(driver.has_caller());
    work.on_poll = [&] {
      if (work.polling_thread == second_thread) second_done = true;
      return false;
    };
    done = true;
    driver.kick();
    break;
  }
  first.join();
  second.join();
  EXPECT_TRUE(second_done);
  EXPECT_TRUE(driver.is_free());
}

/// With a progress thread.
class ProgressThreadTest : public DriverTest {
 protected:
  ProgressThreadTest() {
    work.waits_for_interrupt = true;
    driver.start();
  }
  ~ProgressThreadTest() override {
    {
      const auto lock = driver.enter();
      driver.stop();
    }
    driver.join();
  }

  engine::Backoff backoff{{}};
  engine::Driver driver{work, backoff};
};

TEST_F(ProgressThreadTest, DrivesWhatCallersLeaveBehind) {
  std::condition_variable changed;
  auto lock = driver.enter();
  work.work = true;
  work.on_poll = [&] {
    changed.notify_all();
    return std::exchange(work.work, false);
  };
  driver.leave_to_progress_thread();
  changed.wait(lock, [&] { return !work.work; });
  EXPECT_NE(work.polling_thread, std::this_thread::get_id());
  work.on_poll = nullptr;
}

TEST_F(ProgressThreadTest, DrivesNowAndThenWithoutWork) {
  work.wait_until_asleep();
  const auto lock = driver.enter();
  EXPECT_FALSE(driver.is_free());
  EXPECT_FALSE(driver.has_caller());
}

TEST_F(ProgressThreadTest, HandsOverToACallerThatWaits) {
  {
    const auto lock = driver.enter();
    work.on_poll = [this, caller = std::this_thread::get_id()] {
      done = done || work.polling_thread == caller;
      return false;
    };
  }
  work.wait_until_asleep();
  EXPECT_TRUE(run(driver));
  EXPECT_TRUE(done);
}

}  // namespace
}  // namespace kolo::test
