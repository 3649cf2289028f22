// Training under run_elastic() with real processes that are killed and stopped, and to which newcomers come.
#pragma once

#include <ATen/Functions.h>
#include <ATen/Parallel.h>
#include <c10/core/GradMode.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <torch/nn/modules/linear.h>
#include <torch/optim/sgd.h>
#include <torch/utils.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "kolo/kolo.hpp"
#include "kolo/train/data.hpp"
#include "kolo/train/distributed_data_parallel.hpp"
#include "kolo/train/elastic.hpp"
#include "kolo/train/grid.hpp"
#include "kolo/train/hooks.hpp"
#include "kolo/train/sharded_data_parallel.hpp"
#include "ranks/agreement.hpp"
#include "support/temporary_folder.hpp"
#include "train/support/models.hpp"

namespace kolo::test::elastic {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

constexpr std::size_t kSlots = 1024, kGroups = 4096;
constexpr std::int64_t kSamples = 480, kBatch = 12;

/// A process has taken a sample in a step of a group.
struct Dealt {
  std::int64_t group, step, sample;
};

/// What the ranks tell this process, in memory that all share.
struct Told {
  std::atomic<std::int64_t> step = 0, steps = 0;         // the last one that has begun; how many there are
  std::array<std::atomic<int>, kSlots> sizes{};          // of the group in which each process is
  std::array<std::atomic<std::int64_t>, kSlots> ends{};  // a process dies in its forward of this step
  std::array<double, kSlots> loss{}, drawn{}, forwards{}, left_out{};
  std::array<std::uint64_t, kSlots> hash{};
  std::atomic<std::size_t> groups = 0, records = 0;
  std::array<std::atomic<std::int64_t>, kGroups> lost{};  // ns, by group; 0: no rank was lost
  std::atomic<int> ending = 0;                            // processes that have not come to their end
  std::atomic<int> descriptors = 0;                       // of the last process that has come into a group
  Dealt dealt[1 << 20];
};

/// Counts its forwards in a buffer.
struct NetImpl : torch::nn::Module {
  NetImpl(std::int64_t width, std::int64_t ballast)
      : first(8, width), last(width, 1), forwards(at::zeros({1})) {
    register_module("first", first);
    register_module("last", last);
    register_buffer("forwards", forwards);
    fill(*this, 1);
    if (ballast > 0) register_parameter("ballast", at::zeros({ballast}), false);
  }
  at::Tensor forward(const at::Tensor& x) {
    if (is_training()) forwards.add_(1);
    return last(at::tanh(first(x)));
  }

  torch::nn::Linear first, last;
  at::Tensor forwards;
};
TORCH_MODULE(Net);

class ElasticTraining : public ::testing::Test {
 protected:
  /// `size`: of the first group; 0: a newcomer.
  void start(int size, std::int64_t least = 1) {
    const std::size_t slot = pids_.size();
    std::fflush(stdout);
    pids_.push_back(::fork());
    if (pids_.back() != 0) return alive_.push_back(slot);
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    ::setenv("KOLO_LOG", "info", 1);
    ::setenv("KOLO_HEARTBEAT", "2", 0);
    ::dup2(::open(log_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600), STDERR_FILENO);
    try {
      at::set_num_threads(1);
      torch::manual_seed(size == 0 ? 1'000'000 : slot);
      live(slot, size, least);
    } catch (const std::exception& error) {
      std::cerr << "process " << slot << ": " << error.what() << '\n';
      ::_exit(1);
    }
    ::_exit(0);
  }

  void live(std::size_t slot, int size, std::int64_t least) {
    const auto store = make_file_store(folder_ / "store");
    Net net(width_, ballast_);
    std::shared_ptr<GradientHook> hook;
    std::optional<torch::optim::SGD> optimizer;
    const auto optimize = [&](const std::vector<at::Tensor>& parameters) {
      optimizer.emplace(parameters, torch::optim::SGDOptions(0.02).momentum(0.9));
    };
    if (!is_sharded_) optimize(net->parameters());
    const at::Tensor x = numbers(kSamples, 8, 3), y = x.sin().sum(1, true);
    const Options job{.timeout = 20s, .program = describe_model(*net)};
    ElasticOptions options{.least = static_cast<int>(least),
                           .most = 4,
                           .folder = path_,
                           .save_every = save_every_,
                           .copy_every = copy_every_};
    options.join = [&] {
      auto ranks = Communicator::join(store, job);
      if (stops_) ::raise(SIGSTOP);
      return ranks;
    };
    Communicator ranks = size == 0
                             ? options.join()
                             : Communicator::create(store, size == 1 ? 0 : static_cast<int>(slot), size, job);
    std::optional<DistributedDataParallel<NetImpl>> model;
    std::optional<ShardedDataParallel<NetImpl>> shards;
    std::optional<DistributedSampler> sampler;
    std::int64_t group = 0;
    const auto setup = [&](Communicator& c, Checkpoint& state) {
      if (is_sharded_) {
        shards.reset();
        const int replicas = are_replicas_ && c.size() % 2 == 0 ? 2 : 1;
        Grid grid(c, {.data = replicas, .sharded = c.size() / replicas});
        ShardedDataParallelOptions divided;
        if (replicas > 1) divided.data = grid.data();
        shards.emplace(net.ptr(), grid.sharded(), divided);
        optimize(shards->parameters());
        state.add("model", *shards);
      } else {
        DistributedDataParallelOptions averaged = small_buckets();
        if (!hook_.empty()) averaged.hook = hook = make_gradient_hook(hook_);
        model.emplace(net.ptr(), c, averaged);
        state.add("model", *model);
        if (hook) state.add("hook", *hook);
      }
      sampler.emplace(kSamples, c.rank(), c.size());
      if (c.rank() == 0) group = static_cast<std::int64_t>(told_->groups++);
      c.broadcast(Buffer(&group, 1, DType::int64), 0);
      state.add("optimizer", *optimizer).add("sampler", *sampler);
    };
    options.on_change = [&](const ElasticChange& change) {
      if (!change.why.empty() && change.size_before > 0)
        told_->lost[static_cast<std::size_t>(group)] = std::chrono::nanoseconds(change.lost).count();
      if (hook) {
        told_->left_out[slot] = 0;
        for (const auto& [name, values] : hook->state())
          if (name != "steps")
            for (const float value : values) told_->left_out[slot] += std::abs(value);
      }
      const std::filesystem::directory_iterator open("/proc/self/fd");
      told_->descriptors = static_cast<int>(std::distance(begin(open), end(open)));
      std::ostringstream line;  // written at once, as other processes write too
      line << "process " << slot << ": rank " << change.rank << " of " << change.size
           << " goes on after step " << change.step << " with " << change.origin << ": " << change.why
           << '\n';
      std::cerr << line.str();
      told_->sizes[slot] = change.size;
    };
    run_elastic(ranks, options, setup, [&](Communicator& c, std::uint64_t finished) {
      if (std::cmp_equal(finished, told_->steps.load())) return false;
      const auto share = static_cast<std::size_t>(kBatch / c.size());
      auto batch = sampler->next(share);
      if (!batch.has_value()) {
        sampler->set_epoch(sampler->epoch() + 1);
        batch = sampler->next(share);
      }
      std::vector<std::int64_t> mine(batch->begin(), batch->end());
      const auto step = static_cast<std::int64_t>(finished);
      for (const std::int64_t sample : mine) told_->dealt[told_->records++] = {group, step, sample};
      told_->step = step;
      const at::Tensor rows = at::tensor(mine);
      optimizer->zero_grad();
      const at::Tensor input = x.index_select(0, rows);
      const at::Tensor output = is_sharded_ ? (*shards)(input) : (*model)(input);
      if (step > 0 && told_->ends[slot] == step) {
        --told_->ending;
        while (told_->ending > 0) std::this_thread::sleep_for(1ms);
        ::raise(SIGKILL);
      }
      squares(output, y.index_select(0, rows)).backward();
      optimizer->step();
      std::this_thread::sleep_for(1ms);
      return true;
    });
    const c10::NoGradGuard no_grad;
    net->eval();
    std::optional<ShardedDataParallelBase::Whole> whole;
    if (is_sharded_) whole.emplace(*shards);
    const auto state = bits(net->parameters());
    told_->hash[slot] = train::hash_of(state.data(), state.size());
    told_->loss[slot] = squares(net->forward(x), y).item<double>();
    told_->forwards[slot] = net->forwards.item<double>();
    told_->drawn[slot] = at::rand({1}, at::kDouble).item<double>();
  }

  template <typename Condition>
  bool await(const Condition& condition) {
    const auto deadline = Clock::now() + 30s;
    while (!condition()) {
      if (Clock::now() > deadline) return false;
      std::this_thread::sleep_for(1ms);
    }
    return true;
  }

  /// Whether all who live are soon in one group.
  bool all_meet() {
    return await([this] {
      return std::ranges::all_of(
          alive_, [this](std::size_t slot) { return told_->sizes[slot] == static_cast<int>(alive_.size()); });
    });
  }

  bool make_steps(std::int64_t steps) {
    const std::int64_t end = told_->step + steps;
    return await([this, end] { return told_->step >= end; });
  }

  void kill_one(std::size_t which) {
    const std::size_t slot = alive_[which];
    alive_.erase(alive_.begin() + static_cast<std::ptrdiff_t>(which));
    ::kill(pids_[slot], SIGKILL);
    ::waitpid(pids_[slot], nullptr, 0);
  }

  /// These die in the middle of that step, and the others soon are in one group.
  bool lose(const std::vector<std::size_t>& slots, std::int64_t step) {
    told_->ending = static_cast<int>(slots.size());
    for (const std::size_t slot : slots) told_->ends[slot] = step;
    for (const std::size_t slot : slots) {
      ::waitpid(pids_[slot], nullptr, 0);
      std::erase(alive_, slot);
    }
    return all_meet();
  }

  /// The last group has made the last of steps as a process alone makes them.
  void expect_as_undisturbed() {
    expect_all_end();
    expect_all_samples_once();
    const std::size_t last = alive_.front();
    EXPECT_EQ(told_->forwards[last], static_cast<double>(told_->steps));
    for (const std::size_t slot : alive_) EXPECT_EQ(told_->hash[slot], told_->hash[last]);
    const double loss = told_->loss[last];
    start_again_alone();
    EXPECT_NEAR(loss, told_->loss[alive_.front()], 1e-3 * loss);
    alive_.clear();
  }

  void expect_all_end(int code = 0) {
    for (const std::size_t slot : alive_) {
      int status = -1;
      ::waitpid(pids_[slot], &status, 0);
      EXPECT_EQ(status, code << 8) << "process " << slot;
    }
  }

  /// Undisturbed.
  void start_again_alone() {
    alive_.clear();
    std::filesystem::remove_all(folder_ / "store");
    path_.clear();
    start(1);
    expect_all_end();
  }

  std::string log() const {
    std::ostringstream text;
    text << std::ifstream(log_).rdbuf();
    return text.str();
  }

  /// In each step the samples that the last group to make it has dealt: each sample of an epoch once.
  void expect_all_samples_once() {
    std::map<std::int64_t, std::map<std::int64_t, std::vector<std::int64_t>>> by_step;
    for (std::size_t i = 0; i < told_->records; ++i)
      by_step[told_->dealt[i].step][told_->dealt[i].group].push_back(told_->dealt[i].sample);
    ASSERT_EQ(by_step.size(), static_cast<std::size_t>(told_->steps));
    std::vector<int> seen(kSamples);
    for (const auto& [step, groups] : by_step) {
      for (const std::int64_t sample : groups.rbegin()->second) ++seen[static_cast<std::size_t>(sample)];
      if ((step + 1) * kBatch % kSamples != 0) continue;
      EXPECT_EQ(seen, std::vector<int>(kSamples, static_cast<int>((step + 1) * kBatch / kSamples)))
          << "step " << step;
    }
  }

  void TearDown() override {
    while (!alive_.empty()) kill_one(0);
    if (HasFailure()) std::cout << log();
    ::munmap(told_, sizeof(Told));
  }

  const TemporaryFolder folder_;
  const std::string log_ = folder_ / "log";
  bool is_sharded_ = false, are_replicas_ = false;
  std::int64_t width_ = 24, ballast_ = 0;  // the latter takes a while to copy
  std::uint64_t copy_every_ = 0;
  std::string hook_;
  bool stops_ = false;  // a newcomer, when it is in a group
  std::string path_ = folder_ / "run";
  std::uint64_t save_every_ = 7;
  Told* const told_ =
      new (::mmap(nullptr, sizeof(Told), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0)) Told;
  std::vector<int> pids_;
  std::vector<std::size_t> alive_;  // slots
};

}  // namespace kolo::test::elastic
