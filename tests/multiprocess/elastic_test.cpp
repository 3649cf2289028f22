// A group whose ranks are killed, and to which newcomers come, at random and just when some have met again.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "base/deadline.hpp"
#include "kolo/kolo.hpp"
#include "support/temporary_folder.hpp"
#include "support/transports.hpp"

namespace kolo::test {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t kSlots = 128;

/// What the ranks tell this process, in memory that all share.
struct Told {
  std::array<std::atomic<int>, kSlots> sizes{};  // of the last group in which all have been, by process
  std::atomic<int> descriptors = 0;              // of the process that lives to the end
  std::atomic<int> prey = 0;                     // the process that the next rank to return kills
  std::atomic<int> joined_again = 0;             // newcomers whose group has not come about
  std::atomic<bool> is_over = false;
};

class Elastic : public ::testing::TestWithParam<const char*> {
 protected:
  /// `size`: of the first group; 0: a newcomer.
  void start(int size) {
    const std::size_t slot = pids_.size();
    pids_.push_back(::fork());
    if (pids_.back() != 0) return alive_.push_back(slot);
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    ::setenv("KOLO_LOG", "info", 1);
    ::dup2(::open(log_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600), STDERR_FILENO);
    try {
      live(slot, size);
    } catch (const std::exception& error) {
      std::cerr << "process " << slot << ": " << error.what() << '\n';
      ::_exit(1);
    }
    ::_exit(0);
  }

  void live(std::size_t slot, int size) {
    const auto store = make_file_store(folder_ / "store");
    const Options options{.timeout = 20s, .transports = GetParam()};
    bool is_newcomer = size == 0;  // until a call tells that the whole group has come about
    Communicator c = is_newcomer ? returned(Communicator::join(store, options))
                                 : Communicator::create(store, static_cast<int>(slot), size, options);
    const auto go_on = [&] {
      try {
        return returned(c.regroup());
      } catch (const PeerLostError&) {
        if (!is_newcomer) throw;
        ++told_->joined_again;
        return returned(Communicator::join(store, options));
      }
    };
    for (bool is_over = false; !is_over;) {
      try {
        std::vector<int> flags{c.has_newcomers(), told_->is_over};
        c.all_reduce(flags, ReduceOp::max);
        is_newcomer = false;
        told_->sizes[slot] = c.size();
        is_over = flags[1] != 0;
        if (flags[0] != 0) c = returned(c.regroup());
      } catch (const PeerLostError&) {
        c = go_on();
      }
      if (slot == 1) {
        const std::filesystem::directory_iterator open("/proc/self/fd");
        told_->descriptors = static_cast<int>(std::distance(begin(open), end(open)));
      }
      std::this_thread::sleep_for(1ms);
    }
  }

  Communicator returned(Communicator c) {
    if (const int prey = told_->prey.exchange(0); prey != 0) ::kill(prey, SIGKILL);
    return c;
  }

  /// Whether all who live are soon in one group.
  bool all_meet() {
    const Deadline deadline = Deadline::after(30s);
    const auto is_in = [&](std::size_t slot) {
      return told_->sizes[slot] == static_cast<int>(alive_.size());
    };
    while (!std::ranges::all_of(alive_, is_in)) {
      if (deadline.passed()) return false;
      std::this_thread::sleep_for(1ms);
    }
    return true;
  }

  void kill_one(std::size_t which) {
    const std::size_t slot = alive_[which];
    alive_.erase(alive_.begin() + static_cast<std::ptrdiff_t>(which));
    ::kill(pids_[slot], SIGKILL);
    ::waitpid(pids_[slot], nullptr, 0);
  }

  /// Of what the ranks have logged.
  int lines_with(const std::string& words) const {
    int count = 0;
    std::ifstream log(log_);
    for (std::string line; std::getline(log, line);) count += line.find(words) != line.npos ? 1 : 0;
    return count;
  }

  void expect_all_end_well() {
    told_->is_over = true;
    for (const std::size_t slot : alive_) {
      int status = -1;
      ::waitpid(pids_[slot], &status, 0);
      EXPECT_EQ(status, 0) << "process " << slot;
    }
    alive_.clear();
  }

  void TearDown() override {
    while (!alive_.empty()) kill_one(0);
    if (HasFailure()) std::cout << std::ifstream(log_).rdbuf();
    ::munmap(told_, sizeof(Told));
  }

  const TemporaryFolder folder_;
  const std::string log_ = folder_ / "log";
  Told* const told_ =
      new (::mmap(nullptr, sizeof(Told), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0)) Told;
  std::vector<int> pids_;
  std::vector<std::size_t> alive_;  // slots
};

TEST_P(Elastic, FiftyKillsAndJoins) {
  std::mt19937 random(7);
  const auto chance = [&](std::size_t below) { return random() % below; };
  for (int rank = 0; rank < 3; ++rank) start(3);
  ASSERT_TRUE(all_meet());
  int descriptors = 0;
  std::chrono::nanoseconds longest{0};
  for (int event = 0; event < 50; ++event) {
    const auto began = Clock::now();
    if (alive_.size() < 3 || (alive_.size() < 5 && chance(2) == 0)) {
      start(0);
    } else {
      std::size_t which = chance(alive_.size());
      if (alive_[which] == 1) which = which == 0 ? 1 : 0;  // lives to the end
      kill_one(which);
    }
    ASSERT_TRUE(all_meet()) << "event " << event << ", " << alive_.size() << " live";
    longest = std::max<std::chrono::nanoseconds>(longest, Clock::now() - began);
    if (event == 10) descriptors = told_->descriptors;
  }
  std::cout << "at most " << to_seconds(longest) << " s until all were together\n";
  EXPECT_LT(told_->descriptors, descriptors + 30);
  expect_all_end_well();
}

// As soon as the first rank has returned from regroup(), or newcomer from join(), another one is killed. Or
// it is at a random time. So some ranks are in a group that the others do not come into any more.
TEST_P(Elastic, KillsWhenSomeHaveReturned) {
  std::mt19937 random(11);
  for (int rank = 0; rank < 4; ++rank) start(4);
  ASSERT_TRUE(all_meet());
  for (int round = 0; round < 15; ++round) {
    while (alive_.size() < 6) start(0);
    for (auto kills = 1 + random() % 2; kills > 0; --kills) {
      const std::size_t which = random() % alive_.size();
      if (random() % 4 == 0) {
        std::this_thread::sleep_for(std::chrono::microseconds(random() % 60'000));
      } else {
        told_->prey = pids_[alive_[which]];
        const Deadline deadline = Deadline::after(10s);
        while (told_->prey != 0 && !deadline.passed()) std::this_thread::sleep_for(100us);
      }
      kill_one(which);
    }
    ASSERT_TRUE(all_meet()) << "round " << round << ", " << alive_.size() << " live";
  }
  std::cout << lines_with("the last group is not whole")
            << " times a rank was in a group that others were not in, " << told_->joined_again
            << " times a newcomer\n";
  expect_all_end_well();
}

INSTANTIATE_TEST_SUITE_P(Multiprocess, Elastic, kBetweenProcesses, kTransportNames);

}  // namespace
}  // namespace kolo::test
