// The one file that kolo wrote before 0.2 still loads: libtorch's archives in an archive.
#include <gtest/gtest.h>
#include <torch/optim/adam.h>
#include <torch/serialize.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <sstream>

#include "kolo/train/checkpoint.hpp"
#include "kolo/train/data.hpp"
#include "kolo/train/distributed_data_parallel.hpp"
#include "kolo/train/hooks.hpp"
#include "kolo/train/sharded_data_parallel.hpp"
#include "libtorch/archives.hpp"
#include "support/temporary_folder.hpp"
#include "train/support/models.hpp"
#include "train/support/ranks.hpp"

namespace kolo::test::checkpoints {
namespace {

using torch::serialize::OutputArchive;
using Entries = std::map<std::string, std::function<void(OutputArchive&)>>;

at::Tensor bytes_of(OutputArchive& archive) {
  std::ostringstream stream;
  archive.save_to(stream);
  const std::string text = stream.str();
  const at::Tensor tensor = at::empty({static_cast<std::int64_t>(text.size())}, at::kByte);
  std::memcpy(tensor.data_ptr(), text.data(), text.size());
  return tensor;
}

at::Tensor bytes_of(const Entries& entries, bool is_own) {
  OutputArchive archive;
  for (const auto& [name, save] : entries) {
    OutputArchive inner(archive.compilation_unit());
    save(inner);
    archive.write(name, inner);
  }
  if (is_own) archive.write("random numbers", at::detail::getDefaultCPUGenerator().get_state());
  return bytes_of(archive);
}

/// As format 1 is: entries of rank 0, and entries of each rank.
void write_old(const std::string& path, std::int64_t step, const Entries& shared,
               const std::vector<Entries>& ranks) {
  OutputArchive archive;
  archive.write("kolo_checkpoint", c10::IValue(std::int64_t{1}));
  archive.write("step", c10::IValue(step));
  archive.write("ranks", c10::IValue(static_cast<std::int64_t>(ranks.size())));
  archive.write("shared", bytes_of(shared, false));
  for (std::size_t r = 0; r < ranks.size(); ++r)
    archive.write("rank" + std::to_string(r), bytes_of(ranks[r], true));
  archive.save_to(path);
}

void save_hook(const HookState& state, OutputArchive& archive) {
  std::int64_t index = 0;
  archive.write("size", c10::IValue(static_cast<std::int64_t>(state.size())));
  for (const auto& [name, values] : state) {
    const std::string number = std::to_string(index++);
    archive.write("name" + number, c10::IValue(name));
    archive.write("values" + number, at::tensor(values));
  }
}

class OldFiles : public testing::Test {
 protected:
  void SetUp() override {
    at::set_num_threads(1);
    give_step(*chain_, optimizer_);
  }
  static void give_step(torch::nn::Module& module, torch::optim::Optimizer& optimizer) {
    for (const at::Tensor& parameter : module.parameters())
      parameter.mutable_grad() = numbers(1, parameter.numel(), 5).view(parameter.sizes());
    optimizer.step();
  }

  Chain chain_{1};
  torch::optim::Adam optimizer_{chain_->parameters(), torch::optim::AdamOptions(0.125)};
  const TemporaryFolder temporary_;
  const std::string path_ = temporary_ / "run.pt";
};

TEST_F(OldFiles, GoOn) {
  DistributedSampler sampler(64, 0, 2);
  sampler.set_epoch(4);
  const HookState kept{{"left out of first.weight", {0.5F, -2}}};
  const Entries own{{"hook", [&](auto& archive) { save_hook(kept, archive); }}};
  write_old(path_, 7,
            {{"model", [&](auto& archive) { chain_->save(archive); }},
             {"optimizer", [&](auto& archive) { train::save_whole(optimizer_, archive); }},
             {"sampler", [&](auto& archive) { sampler.save(archive); }}},
            {own, own});
  const auto before = bits(chain_->parameters());
  give_step(*chain_, optimizer_);
  const auto expected = bits(chain_->parameters());
  run_all(2, [&](Communicator& communicator) {
    DistributedDataParallel model(Chain(50), communicator);
    torch::optim::Adam optimizer(model.parameters());
    DistributedSampler loaded(64, communicator.rank(), 2);
    const auto loaded_hook = make_gradient_hook("one_bit");
    Checkpoint checkpoint;
    checkpoint.add("model", model.model())
        .add("optimizer", optimizer)
        .add("sampler", loaded)
        .add("hook", *loaded_hook);
    EXPECT_EQ(checkpoint.resume(path_, communicator), 7U);
    EXPECT_EQ(bits(model.parameters()), before);
    EXPECT_EQ(loaded.epoch(), 4U);
    EXPECT_EQ(loaded_hook->state(), kept);
    give_step(model.model(), optimizer);
    EXPECT_EQ(bits(model.parameters()), expected);
    checkpoint.save(temporary_ / "run", 8, communicator);  // and from then on in a folder
  });
  Chain other(1, 24);
  for (const auto& error : run_ranks(2, [&](Communicator& communicator) {
         Checkpoint().add("model", *other).load(path_, communicator);
       })) {
    EXPECT_NE(message(error).find("'first.weight' is [16, 8] there, and [24, 8] here"), std::string::npos)
        << message(error);
  }
}

TEST_F(OldFiles, OfShardsGoOnWithAnyNumberOfRanks) {
  // As ShardedOptimizerState wrote it: each parameter's tensors under its name, in memory's order.
  const auto save_states = [&](OutputArchive& archive) {
    for (const auto& item : chain_->named_parameters()) {
      OutputArchive one(archive.compilation_unit());
      const auto& state =
          static_cast<const torch::optim::AdamParamState&>(*state_of(optimizer_, item.value()));
      one.write("step", c10::IValue(state.step()));
      one.write("exp_avg", c10::IValue(state.exp_avg().view({-1})));
      one.write("exp_avg_sq", c10::IValue(state.exp_avg_sq().view({-1})));
      archive.write(item.key(), one);
    }
    OutputArchive options(archive.compilation_unit());
    optimizer_.param_groups()[0].options().serialize(options);
    archive.write("options of group 0", options);
  };
  write_old(path_, 5, {{"model", [&](auto& archive) { chain_->save(archive); }}, {"optimizer", save_states}},
            {{}, {}, {}});
  give_step(*chain_, optimizer_);
  const auto expected = bits(chain_->parameters());
  const std::string folder = temporary_ / "run";
  run_all(2, [&](Communicator& communicator) {
    ShardedDataParallel model(Chain(50), communicator, {});
    torch::optim::Adam optimizer(model.parameters());
    Checkpoint checkpoint;
    checkpoint.add("model", model).add("optimizer", optimizer);
    EXPECT_EQ(checkpoint.load(path_, communicator), 5U);
    checkpoint.save(folder, 5, communicator);
  });
  run_all(1, [&](Communicator& communicator) {
    Chain chain(50);
    torch::optim::Adam optimizer(chain->parameters());
    Checkpoint().add("model", *chain).add("optimizer", optimizer).load(folder, communicator);
    give_step(*chain, optimizer);
    EXPECT_EQ(bits(chain->parameters()), expected);
  });
}

TEST_F(OldFiles, ThatAreNoneOrCutOffAreErrorsOnAllRanks) {
  const auto refusal = [&] {
    std::string said;
    for (const auto& error : run_ranks(2, [&](Communicator& communicator) {
           Chain chain(50);
           Checkpoint().add("model", *chain).load(path_, communicator);
         })) {
      EXPECT_NE(message(error).find("rank 0 cannot load the checkpoint: " + path_), std::string::npos);
      said = message(error);
    }
    return said;
  };
  std::ofstream(path_) << "no archive";
  EXPECT_NE(refusal(), "");
  write_old(path_, 7, {{"model", [&](auto& archive) { chain_->save(archive); }}}, {{}, {}});
  std::filesystem::resize_file(path_, std::filesystem::file_size(path_) / 2);
  EXPECT_NE(refusal(), "");
}

}  // namespace
}  // namespace kolo::test::checkpoints
