// A checkpoint's file of which bits flipped, bytes are missing or too many, is an error that names it.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/linear.h>
#include <torch/optim/adam.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "checkpoint/file.hpp"
#include "kolo/train/checkpoint.hpp"
#include "kolo/train/distributed_data_parallel.hpp"
#include "kolo/train/hooks.hpp"
#include "support/temporary_folder.hpp"
#include "train/support/models.hpp"
#include "train/support/ranks.hpp"

namespace kolo::test::checkpoints {
namespace {

class DamagedCheckpoints : public testing::Test {
 protected:
  /// A small one: a model, an optimizer with moments, a hook with what it left out.
  void SetUp() override {
    at::set_num_threads(1);
    run_all(1, [&](Communicator& communicator) {
      DistributedDataParallelOptions options;
      options.hook = make_gradient_hook("one_bit");
      DistributedDataParallel model(torch::nn::Linear(4, 2), communicator, options);
      torch::optim::Adam optimizer(model.parameters());
      squares(model(numbers(3, 4, 1)), numbers(3, 2, 2)).backward();
      optimizer.step();
      Checkpoint checkpoint;
      checkpoint.add("model", model.model()).add("optimizer", optimizer).add("hook", *options.hook);
      checkpoint.save(path_, 7, communicator);
    });
    whole_ = train::read_checkpoint(path_);
    std::ifstream file(path_, std::ios::binary);
    bytes_ = (std::ostringstream() << file.rdbuf()).str();
  }

  /// Whether the file is refused. What is not has to be the whole one.
  bool is_refused(const std::string& what) const {
    try {
      const train::CheckpointFile file = train::read_checkpoint(path_);
      EXPECT_EQ(file.step, whole_.step) << what;
      EXPECT_EQ(file.shared, whole_.shared) << what;
      EXPECT_EQ(file.ranks, whole_.ranks) << what;
      return false;
    } catch (const std::runtime_error& error) {
      EXPECT_TRUE(std::string(error.what()).starts_with(path_ + ": ")) << what << ": " << error.what();
      return true;
    }
  }
  void write_at(std::size_t at, char byte) const {
    const int file = ::open(path_.c_str(), O_WRONLY | O_CLOEXEC);
    EXPECT_EQ(::pwrite(file, &byte, 1, static_cast<off_t>(at)), 1);
    ::close(file);
  }

  const TemporaryFolder temporary_;
  const std::string path_ = temporary_ / "run.pt";
  train::CheckpointFile whole_;
  std::string bytes_;
};

TEST_F(DamagedCheckpoints, LoadAsTheyWereOrNotAtAllWhereverABitFlips) {
  std::size_t refused = 0;
  for (std::size_t at = 0; at < bytes_.size(); ++at) {
    write_at(at, static_cast<char>(bytes_[at] ^ 1 << at % 8));
    refused += is_refused("byte " + std::to_string(at)) ? 1 : 0;
    write_at(at, bytes_[at]);
  }
  // Padding and dates may flip; payload may not.
  EXPECT_GT(refused, whole_.shared.size() + whole_.ranks[0].size());
  EXPECT_FALSE(is_refused("the file as it was"));
}

TEST_F(DamagedCheckpoints, AreRefusedWhereverTheyEndTooSoon) {
  for (std::size_t size = bytes_.size(); size-- > 0;) {
    std::filesystem::resize_file(path_, size);
    EXPECT_TRUE(is_refused("the first bytes")) << size;
  }
}

TEST_F(DamagedCheckpoints, AreRefusedWithBytesBehindTheirEnd) {
  for (const std::string& more :
       {std::string(1, '\0'), std::string("P"), std::string(70'000, '\0'), bytes_}) {
    std::ofstream(path_, std::ios::binary) << bytes_ << more;
    EXPECT_TRUE(is_refused("with more")) << more.size();
  }
}

TEST_F(DamagedCheckpoints, AreErrorsOnAllRanks) {
  const std::size_t at = bytes_.find(whole_.shared) + whole_.shared.size() / 2;
  write_at(at, static_cast<char>(bytes_[at] ^ 1));
  torch::nn::Linear model(4, 2);
  for (const auto& error : run_ranks(2, [&](Communicator& communicator) {
         Checkpoint().add("model", *model).load(path_, communicator);
       })) {
    EXPECT_NE(message(error).find("rank 0 cannot load the checkpoint: " + path_ + ": it is damaged: 'data/"),
              std::string::npos)
        << message(error);
  }
}

}  // namespace
}  // namespace kolo::test::checkpoints
