// run_elastic() with real processes: training whose ranks are killed and stopped, and to which newcomers
// come, ends as if nothing had been. KOLO_TEST_KILLS: how often.
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "train/elastic/elastic_training.hpp"

namespace kolo::test::elastic {
namespace {

std::set<std::string> names_in(const char* folder) {
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) names.insert(entry.path().filename());
  return names;
}

TEST_F(ElasticTraining, EndsAsIfNothingHadBeen) {
  const char* const wanted = std::getenv("KOLO_TEST_KILLS");
  const int kills = wanted != nullptr ? std::atoi(wanted) : 3;
  told_->steps = 40'000;
  const auto files = names_in("/dev/shm");
  std::mt19937 random(5);
  const auto chance = [&](std::size_t below) { return random() % below; };
  for (int rank = 0; rank < 3; ++rank) start(3);
  ASSERT_TRUE(all_meet());
  int descriptors = 0, newcomers = 0, stops = 0;
  for (int kill = 0; kill < kills;) {
    ASSERT_TRUE(make_steps(5));
    std::this_thread::sleep_for(std::chrono::microseconds(chance(4'000)));
    const std::size_t which = chance(alive_.size());
    if (alive_.size() < 2 || (alive_.size() < 4 && chance(2) == 0)) {
      start(0);
      ++newcomers;
    } else if (chance(4) == 0) {
      ::kill(pids_[alive_[which]], SIGSTOP);  // now and then for so long that the others go on without it
      std::this_thread::sleep_for(chance(2) == 0 ? 20ms : 3s);
      ::kill(pids_[alive_[which]], SIGCONT);
      ++stops;
    } else {
      kill_one(which);
      if (++kill == 5) descriptors = told_->descriptors;
    }
    ASSERT_TRUE(all_meet()) << kill << " kills, " << alive_.size() << " live";
  }
  const std::int64_t epoch = kSamples / kBatch;
  told_->steps = (told_->step / epoch + 2) * epoch;
  expect_all_end();
  expect_all_samples_once();
  std::set<double> drawn;
  for (const std::size_t slot : alive_) {
    EXPECT_EQ(told_->hash[slot], told_->hash[alive_.front()]);
    EXPECT_EQ(told_->forwards[slot], static_cast<double>(told_->steps)) << "a forward counts twice";
    drawn.insert(told_->drawn[slot]);
  }
  EXPECT_EQ(drawn.size(), alive_.size()) << "two ranks draw the same random numbers";
  EXPECT_TRUE(kills < 20 || told_->descriptors < descriptors + 20)
      << descriptors << ' ' << told_->descriptors;
  EXPECT_EQ(names_in("/dev/shm"), files);
  const double loss = told_->loss[alive_.front()];
  std::vector<std::int64_t> lost;
  for (const auto& time : told_->lost)
    if (time > 0) lost.push_back(time);
  std::ranges::sort(lost);
  ASSERT_FALSE(lost.empty());
  std::printf(
      "%d kills, %d stops, %d newcomers, %lld steps; time lost: median %.0f ms, worst %.0f ms of %zu\n",
      kills, stops, newcomers, static_cast<long long>(told_->steps),
      static_cast<double>(lost[lost.size() / 2]) / 1e6, static_cast<double>(lost.back()) / 1e6, lost.size());
  start_again_alone();
  EXPECT_NEAR(loss, told_->loss[alive_.front()], 1e-3 * loss);
  alive_.clear();
}

TEST_F(ElasticTraining, ShardsComeFromReplicas) {
  told_->steps = 80;
  is_sharded_ = are_replicas_ = true;
  path_.clear();
  for (int rank = 0; rank < 4; ++rank) start(4);
  ASSERT_TRUE(lose({1}, 20));
  EXPECT_NE(log().find(" of 3 goes on after step 20 with replicas of what was lost: "), std::string::npos);
  start(0);
  ASSERT_TRUE(all_meet());
  EXPECT_NE(log().find(" with what the ranks have: "), std::string::npos);
  expect_as_undisturbed();
}

// Where a rank and the one that has its copy die at once, the last checkpoint is left.
TEST_F(ElasticTraining, ShardsComeFromCopies) {
  told_->steps = 40'000;
  is_sharded_ = true;
  copy_every_ = 4;
  for (int rank = 0; rank < 3; ++rank) start(3);
  ASSERT_TRUE(lose({1}, 22));
  EXPECT_NE(log().find(" of 2 goes on after step 20 with copies that neighbours have: "), std::string::npos);
  start(0);
  ASSERT_TRUE(all_meet());
  const std::int64_t end = told_->step + 20;
  ASSERT_TRUE(lose({0, 2}, end));
  told_->steps = end + 200;
  EXPECT_NE(log().find(" with " + path_ + ": "), std::string::npos);
  expect_as_undisturbed();
}

TEST_F(ElasticTraining, WhatHooksHaveLeftOutOutlivesALoss) {
  told_->steps = 80;
  hook_ = "int8:feedback=1";
  for (int rank = 0; rank < 3; ++rank) start(3);
  ASSERT_TRUE(lose({0}, 20));
  start(0);
  ASSERT_TRUE(all_meet());
  for (const std::size_t slot : alive_) EXPECT_GT(told_->left_out[slot], 0) << "process " << slot;
  expect_as_undisturbed();
}

TEST_F(ElasticTraining, AnotherModelIsRefused) {
  told_->steps = 40'000;
  for (int rank = 0; rank < 2; ++rank) start(2);
  ASSERT_TRUE(make_steps(5));
  width_ = 25;
  start(0);
  int status = 0;
  ::waitpid(pids_[2], &status, 0);
  EXPECT_EQ(status, 1 << 8);
  alive_.pop_back();
  ASSERT_TRUE(make_steps(5));
  told_->steps = told_->step + 5;
  expect_all_end();
  EXPECT_NE(log().find("process 2: "), std::string::npos);
  EXPECT_EQ(told_->groups, 1u);
  alive_.clear();
}

TEST_F(ElasticTraining, TheSourceDiesWhileItIsCopied) {
  told_->steps = 40'000;
  ballast_ = 8 << 20;
  for (int rank = 0; rank < 3; ++rank) start(3);
  ASSERT_TRUE(make_steps(2));
  stops_ = true;
  for (const auto after : {2ms, 20ms}) {
    start(0);
    ::waitpid(pids_.back(), nullptr, WUNTRACED);
    std::this_thread::sleep_for(50ms);  // the others wait
    ::kill(pids_.back(), SIGCONT);
    std::this_thread::sleep_for(after);
    kill_one(0);
    ASSERT_TRUE(all_meet());
  }
  told_->steps = told_->step + 5;
  expect_all_end();
  for (const std::size_t slot : alive_) EXPECT_EQ(told_->hash[slot], told_->hash[alive_.front()]);
  alive_.clear();
}

TEST_F(ElasticTraining, TooFewRanksLeaveACheckpoint) {
  told_->steps = 40'000;
  for (int rank = 0; rank < 3; ++rank) start(3, 3);
  ASSERT_TRUE(make_steps(10));
  kill_one(0);
  expect_all_end(1);
  alive_.clear();
  EXPECT_NE(log().find("2 ranks are left, and at least 3 must be there; step "), std::string::npos);
}

// The other ranks do not say that they have ended, so they may go on.
TEST_F(ElasticTraining, TheSmallerPartLeavesACheckpoint) {
  told_->steps = 40'000;
  for (int rank = 0; rank < 3; ++rank) start(3);
  ASSERT_TRUE(make_steps(10));
  for (const std::size_t slot : {1, 2}) ::kill(pids_[slot], SIGSTOP);
  alive_ = {0};
  expect_all_end(1);
  alive_ = {1, 2};
  EXPECT_NE(log().find("1 of 3 ranks are left, and 2 may live"), std::string::npos);
  EXPECT_TRUE(std::filesystem::exists(path_ + "/cut-off-rank-0"));
}

}  // namespace
}  // namespace kolo::test::elastic
