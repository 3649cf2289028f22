// A program that is killed at any moment while it writes checkpoints leaves one that loads, of the last step
// that was written or of the one under way. KOLO_TEST_KILLS: how often. So does one whose disk is full.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <torch/nn/modules/linear.h>
#include <torch/optim/adam.h>
#include <torch/utils.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <map>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "checkpoint/reader.hpp"
#include "checkpoint/writer.hpp"
#include "kolo/train/checkpoint.hpp"
#include "ranks/agreement.hpp"
#include "support/temporary_folder.hpp"
#include "train/support/models.hpp"
#include "train/support/ranks.hpp"

namespace kolo::test {
namespace {

/// What a program tells the test: a step's number and what its state comes to.
struct Report {
  enum Kind : std::uint64_t { kResumed, kWrites, kHasWritten } kind;
  std::uint64_t step, hash;
};

/// Goes on from the newest one, then writes checkpoint after checkpoint, and trains meanwhile. Returns where
/// that fails.
void train(const std::string& path, int told) {
  at::set_num_threads(1);  // libtorch makes a pool of threads anew after a fork: not in two threads at once
  const auto errors = run_ranks(2, [&](Communicator& communicator) {
    Chain chain(1);
    torch::optim::Adam optimizer(chain->parameters());
    Checkpoint checkpoint;
    checkpoint.add("model", *chain).add("optimizer", optimizer);
    const auto tell = [&](Report::Kind kind, std::uint64_t step) {
      const auto state = bits(chain->parameters());
      const Report report{kind, step, train::hash_of(state.data(), state.size())};
      if (communicator.rank() == 0 && ::write(told, &report, sizeof report) != sizeof report) ::_exit(3);
    };
    std::uint64_t step = checkpoint.resume(path, communicator);
    tell(Report::kResumed, step);
    for (;;) {
      ++step;
      for (at::Tensor& parameter : chain->parameters())
        parameter.mutable_grad() =
            numbers(1, parameter.numel(), static_cast<double>(step)).reshape(parameter.sizes());
      optimizer.step();
      checkpoint.wait();
      if (step > 1) tell(Report::kHasWritten, step - 1);
      tell(Report::kWrites, step);
      checkpoint.save(path, step, communicator);
    }
  });
  for (const auto& error : errors) std::fprintf(stderr, "%s\n", message(error).c_str());
}

TEST(CheckpointKills, LeaveAWholeCheckpoint) {
  at::set_num_threads(1);
  const TemporaryFolder folder;
  const std::string path = folder / "run";
  const char* const wanted = std::getenv("KOLO_TEST_KILLS");
  const int kills = wanted != nullptr ? std::atoi(wanted) : 20;
  std::mt19937 random(1);
  std::map<std::uint64_t, std::uint64_t> hashes;  // by step
  std::uint64_t written = 0, writes = 0;
  int between = 0;  // kills after a checkpoint was begun and before it was complete
  for (int kill = 0; kill < kills; ++kill) {
    int pipe[2];
    ASSERT_EQ(::pipe2(pipe, O_CLOEXEC), 0);
    const pid_t child = ::fork();
    if (child == 0) {
      train(path, pipe[1]);
      ::_exit(1);
    }
    ::close(pipe[1]);
    Report report{};
    const auto read = [&] { return ::read(pipe[0], &report, sizeof report) == sizeof report; };
    if (read()) {
      EXPECT_EQ(report.kind, Report::kResumed);
      EXPECT_TRUE(report.step == written || report.step == writes) << report.step << " after " << written;
      EXPECT_EQ(report.hash, report.step == 0 ? report.hash : hashes[report.step]);
      hashes = {{report.step, report.hash}};
      written = writes = report.step;
    }
    // No event tells of a moment within a write.
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 100'000));
    ::kill(child, SIGKILL);
    while (read()) {
      if (report.kind == Report::kWrites) hashes[report.step] = report.hash;
      (report.kind == Report::kWrites ? writes : written) = report.step;
    }
    ::close(pipe[0]);
    if (std::filesystem::exists(path)) {
      for (const std::uint64_t step : train::steps_in(path))
        EXPECT_NO_THROW(train::CheckpointReader(train::step_folder(path, step)).check_files(0, 1)) << step;
    }
    between += writes > written ? 1 : 0;
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) << "after " << kill << " kills";
  }
  EXPECT_GT(between, kills / 4);
  EXPECT_GT(written, 0U);
  std::printf("%d kills, %d within a write, %llu checkpoints\n", kills, between,
              static_cast<unsigned long long>(writes));
}

/// A disk of this process alone. False where the system does not allow one.
bool mount_disk(const char* folder, const char* size) {
  return ::unshare(CLONE_NEWNS) == 0 && ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
         ::mount("disk", folder, "tmpfs", 0, size) == 0;
}

std::vector<std::string> names_in(const std::string& path) {
  std::vector<std::string> result;
  for (const auto& file : std::filesystem::directory_iterator(path)) result.push_back(file.path().filename());
  std::ranges::sort(result);
  return result;
}

using Names = std::vector<std::string>;

/// Two checkpoints fit on the disk, and a third does not.
void fill_disk(const std::string& path) {
  at::set_num_threads(1);
  torch::nn::Linear model(128, 128);
  const auto errors = run_ranks(2, [&](Communicator& communicator) {
    Checkpoint checkpoint;
    checkpoint.add("model", *model);
    for (std::uint64_t step = 1; step <= 3; ++step) checkpoint.save(path, step, communicator);
    checkpoint.wait();
  });
  for (const auto& error : errors) {
    EXPECT_EQ(message(error), message(errors[0]));
    EXPECT_NE(message(error).find("No space left on device"), std::string::npos) << message(error);
  }
  EXPECT_EQ(names_in(path), (Names{"step-1", "step-2"}));
  run_all(2, [&](Communicator& communicator) {
    torch::nn::Linear loaded(128, 128);
    EXPECT_EQ(Checkpoint().add("model", *loaded).load(path, communicator), 2U);
    EXPECT_TRUE(at::equal(loaded->weight, model->weight));
  });
}

/// Runs `body` in a process of its own that has a disk at `folder`.
void with_disk(const std::string& folder, const std::function<void()>& body) {
  const pid_t child = ::fork();
  if (child == 0) {
    if (!mount_disk(folder.c_str(), "size=200k")) ::_exit(2);
    body();
    ::_exit(testing::Test::HasFailure() ? 1 : 0);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  if (WIFEXITED(status) && WEXITSTATUS(status) == 2) GTEST_SKIP() << "the system lets no test mount a disk";
  EXPECT_EQ(status, 0);
}

TEST(CheckpointKills, AFullDiskLeavesTheCheckpointsBefore) {
  const TemporaryFolder folder;
  with_disk(folder.path(), [&] { fill_disk(folder / "run"); });
}

/// A folder on which a disk is mounted cannot have another name.
TEST(CheckpointKills, AnOldOneThatStaysIsNoError) {
  const TemporaryFolder folder;
  const std::string busy = folder / "step-1";
  std::filesystem::create_directory(busy);
  with_disk(busy, [&] {
    at::set_num_threads(1);
    run_all(2, [&](Communicator& communicator) {
      torch::nn::Linear model(4, 4);
      Checkpoint checkpoint({.keep = 1});
      checkpoint.add("model", *model);
      for (std::uint64_t step = 2; step <= 3; ++step) checkpoint.save(folder.path(), step, communicator);
      checkpoint.wait();
      EXPECT_EQ(checkpoint.load(folder.path(), communicator), 3U);
    });
    EXPECT_EQ(names_in(folder.path()), (Names{"step-1", "step-3"}));
  });
}

}  // namespace
}  // namespace kolo::test
