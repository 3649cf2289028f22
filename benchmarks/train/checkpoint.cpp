// bench_train checkpoint: how long training waits for a checkpoint, beside a copy and a write of as many
// bytes.
#include <ATen/Parallel.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/linear.h>
#include <torch/optim/adam.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "kolo/kolo.hpp"
#include "kolo/train/checkpoint.hpp"
#include "kolo/train/sharded_data_parallel.hpp"
#include "train/commands.hpp"
#include "train/resident_memory.hpp"
#include "train/timing.hpp"

namespace kolo::bench {
namespace {

constexpr std::int64_t kWidth = 512;

struct CheckpointSettings {
  int millions = 25;
  int rounds = 7;
  bool has_shards = false;
  std::string folder;
};

/// Seconds of a write with fsync.
double time_of_write(const std::string& path, const std::vector<char>& bytes) {
  const auto begin = Clock::now();
  const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  for (std::size_t at = 0; at < bytes.size();) {
    const ssize_t wrote = ::write(file, bytes.data() + at, bytes.size() - at);
    if (wrote < 0) throw std::runtime_error("cannot write " + path);
    at += static_cast<std::size_t>(wrote);
  }
  if (::fsync(file) != 0) throw std::runtime_error("cannot write " + path);
  ::close(file);
  return seconds_since(begin);
}

void run_checkpoint(const CheckpointSettings& settings, bool speaks) {
  at::set_num_threads(1);
  Communicator communicator = Communicator::create();
  torch::nn::Sequential net;
  for (std::int64_t layer = 0; layer < settings.millions * 1'000'000LL / (kWidth * kWidth); ++layer)
    net->push_back(torch::nn::Linear(kWidth, kWidth));
  std::unique_ptr<ShardedDataParallel<torch::nn::SequentialImpl>> sharded;
  if (settings.has_shards)
    sharded = std::make_unique<ShardedDataParallel<torch::nn::SequentialImpl>>(net, communicator);
  const auto parameters = sharded ? sharded->parameters() : net->parameters();
  torch::optim::Adam optimizer(parameters);
  std::uint64_t state_bytes = 0;  // of this rank: parameters and two moments
  for (const at::Tensor& parameter : parameters) {
    parameter.mutable_grad() = at::ones_like(parameter);
    state_bytes += 3 * parameter.nbytes();
  }
  optimizer.step();
  optimizer.zero_grad();
  Checkpoint checkpoint;
  sharded ? checkpoint.add("model", *sharded) : checkpoint.add("model", *net);
  checkpoint.add("optimizer", optimizer);

  const auto ranks = static_cast<std::uint64_t>(communicator.size());
  const std::uint64_t share = settings.has_shards ? state_bytes : state_bytes / ranks;
  const double before = resident_bytes();
  double peak = 0;
  {
    const ResidentPeak polled;
    checkpoint.save(settings.folder, 0, communicator);
    checkpoint.wait();
    peak = polled.bytes() - before;
  }
  const std::string own =
      settings.folder + "/step-0/rank-" + std::to_string(communicator.rank()) + ".safetensors";
  const auto written = static_cast<double>(std::filesystem::file_size(own));

  const std::vector<char> bytes(share, 'x');
  std::vector<char> copy(share);
  std::vector<double> copies, writes, blocked, saves;
  for (int round = 1; round <= settings.rounds; ++round) {
    communicator.barrier();
    auto begin = Clock::now();
    std::memcpy(copy.data(), bytes.data(), share);
    copies.push_back(largest_of_all(communicator, seconds_since(begin)));
    communicator.barrier();
    writes.push_back(largest_of_all(
        communicator, time_of_write(settings.folder + "/" + std::to_string(communicator.rank()), bytes)));
    communicator.barrier();
    begin = Clock::now();
    checkpoint.save(settings.folder, static_cast<std::uint64_t>(round), communicator);
    const double until_copied = seconds_since(begin);
    checkpoint.wait();
    const double until_written = seconds_since(begin);
    blocked.push_back(largest_of_all(communicator, until_copied));
    saves.push_back(largest_of_all(communicator, until_written));
  }
  const double most = largest_of_all(communicator, written), least = -largest_of_all(communicator, -written);
  const double most_memory = largest_of_all(communicator, peak);
  if (!speaks) return;
  const auto mega = [](double count) { return count / 1e6; };
  fmt::print("share of a rank          {:9.1f} MB; written {:.1f} to {:.1f} MB\n",
             mega(static_cast<double>(share)), mega(least), mega(most));
  fmt::print("memory that a save adds  {:9.1f} MB, {:.3f} of the share\n", mega(most_memory),
             most_memory / static_cast<double>(share));
  for (const auto& [name, times] : {std::pair("copy of the share", copies),
                                    {"write and fsync", writes},
                                    {"save() blocks", blocked},
                                    {"until it is written", saves}}) {
    fmt::print("{:<24} {:9.2f} ms, at least {:.2f}\n", name, 1e3 * median(times),
               1e3 * std::ranges::min(times));
  }
  fmt::print("save() blocks for {:.3f} of a write, {:.2f} of a copy\n", median(blocked) / median(writes),
             median(blocked) / median(copies));
}

}  // namespace

void add_checkpoint(CLI::App& app, bool speaks) {
  auto settings = std::make_shared<CheckpointSettings>();
  CLI::App* const command = app.add_subcommand("checkpoint", "Times checkpoints beside copies and writes");
  command->add_option("--folder", settings->folder, "Where they are written, and left")->required();
  command->add_option("--millions", settings->millions, "Parameters")->check(CLI::PositiveNumber);
  command->add_option("--rounds", settings->rounds, "Checkpoints")->check(CLI::PositiveNumber);
  command->add_flag("--shard", settings->has_shards, "Of a ShardedDataParallel");
  command->callback([settings, speaks] { run_checkpoint(*settings, speaks); });
}

}  // namespace kolo::bench
