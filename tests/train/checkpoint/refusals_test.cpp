// What is no whole checkpoint, or one of something else, is an error on all ranks; the one before it is used.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <torch/optim/adam.h>
#include <torch/optim/sgd.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "checkpoint/format.hpp"
#include "kolo/train/checkpoint.hpp"
#include "kolo/train/hooks.hpp"
#include "support/temporary_folder.hpp"
#include "train/support/models.hpp"
#include "train/support/ranks.hpp"

namespace kolo::test::checkpoints {
namespace {

namespace fs = std::filesystem;

std::string bytes_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return (std::ostringstream() << file.rdbuf()).str();
}

void write_to(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

class RefusedCheckpoints : public testing::Test {
 protected:
  void SetUp() override { at::set_num_threads(1); }

  /// Two checkpoints, of steps 1 and 2, that two ranks have saved.
  void save_two() const {
    run_all(2, [&](Communicator& communicator) {
      Chain chain(1);
      Checkpoint checkpoint;
      checkpoint.add("model", *chain);
      checkpoint.save(path_, 1, communicator);
      fill(*chain, 2);
      checkpoint.save(path_, 2, communicator);
    });
  }
  /// What all of `ranks` ranks say.
  static std::string refusal(int ranks, const std::function<void(Communicator&)>& action) {
    std::string first;
    for (const auto& error : run_ranks(ranks, action)) {
      EXPECT_NE(message(error), "");
      if (first.empty()) first = message(error);
      EXPECT_EQ(message(error), first);
    }
    return first;
  }
  std::string refusal_of(const std::string& folder, const std::function<void(Checkpoint&)>& add = {}) const {
    return refusal(2, [&](Communicator& communicator) {
      Chain chain(1);
      Checkpoint checkpoint;
      add ? add(checkpoint) : static_cast<void>(checkpoint.add("model", *chain));
      checkpoint.load(folder, communicator);
    });
  }
  /// The step that resume() finds.
  std::uint64_t resumed() const {
    std::uint64_t step = 0;
    run_all(2, [&](Communicator& communicator) {
      Chain chain(50);
      const std::uint64_t found = Checkpoint().add("model", *chain).resume(path_, communicator);
      if (found > 0) {
        EXPECT_EQ(bits(chain->parameters()), bits(Chain(static_cast<double>(found))->parameters()));
      }
      if (communicator.rank() == 0) step = found;
    });
    return step;
  }
  std::vector<std::string> names() const {
    std::vector<std::string> result;
    for (const auto& file : fs::directory_iterator(path_)) result.push_back(file.path().filename());
    std::ranges::sort(result);
    return result;
  }

  const TemporaryFolder temporary_;
  const std::string path_ = temporary_ / "run", newest_ = path_ + "/step-2";
};

void expect_in(const std::string& text, const std::string& part) {
  EXPECT_NE(text.find(part), std::string::npos) << "'" << text << "' without '" << part << "'";
}

TEST_F(RefusedCheckpoints, OfAnotherModelNameTheFirstParameterThatDiffers) {
  save_two();
  Chain wider(1, 24);
  expect_in(refusal_of(path_, [&](Checkpoint& checkpoint) { checkpoint.add("model", *wider); }),
            newest_ + ": 'first.weight' is F32 [16, 8] there, and F32 [24, 8] here");
  Chain doubles(1);
  doubles->to(at::kDouble);
  expect_in(refusal_of(path_, [&](Checkpoint& checkpoint) { checkpoint.add("model", *doubles); }),
            "'first.weight' is F32 [16, 8] there, and F64 [16, 8] here");
  WithBuffersImpl other;
  expect_in(refusal_of(path_, [&](Checkpoint& checkpoint) { checkpoint.add("model", other); }),
            "it has no 'norm.weight'");
  Chain chain(1);
  expect_in(refusal_of(path_, [&](Checkpoint& checkpoint) { checkpoint.add("net", *chain); }),
            "it has no 'net/first.weight'");
  struct FirstImpl : torch::nn::Module {
    explicit FirstImpl(const torch::nn::Linear& first) { register_module("first", first); }
  } first(chain->first);
  const auto before = bits(first.parameters());
  expect_in(refusal_of(path_, [&](Checkpoint& checkpoint) { checkpoint.add("model", first); }),
            "the checkpoint has 'second.bias', which no rank's 'model' has");
  EXPECT_EQ(bits(first.parameters()), before);
}

TEST_F(RefusedCheckpoints, WithoutWhatIsAddedSaySo) {
  save_two();
  Chain chain(1);
  torch::optim::Adam optimizer(chain->parameters());
  expect_in(refusal_of(path_, [&](Checkpoint& checkpoint) { checkpoint.add("optimizer", optimizer); }),
            "it has no 'optimizer'");
  const auto hook = make_gradient_hook("top_k");
  expect_in(refusal_of(path_, [&](Checkpoint& checkpoint) { checkpoint.add("hook", *hook); }),
            "it has no 'rank-0/hook'");
}

TEST_F(RefusedCheckpoints, OfAnotherOptimizerChangeNothing) {
  run_all(2, [&](Communicator& communicator) {
    Chain chain(1);
    torch::optim::Adam adam(chain->parameters());
    Checkpoint checkpoint;
    checkpoint.add("model", *chain).add("optimizer", adam).save(path_, 1, communicator);
  });
  Chain chain(2);
  const auto before = bits(chain->parameters());
  torch::optim::SGD sgd(chain->parameters(), 0.1);
  torch::optim::Adam two({std::vector<at::Tensor>{chain->parameters()[0]}});
  two.add_param_group(torch::optim::OptimizerParamGroup({chain->parameters()[1]}));
  const auto refusal_with = [&](torch::optim::Optimizer& optimizer) {
    return refusal_of(
        path_, [&](Checkpoint& checkpoint) { checkpoint.add("model", *chain).add("optimizer", optimizer); });
  };
  expect_in(refusal_with(sgd), "its 'optimizer' is of another type of optimizer");
  expect_in(refusal_with(two), "its 'optimizer' has not 2 parameter groups");
  EXPECT_EQ(bits(chain->parameters()), before);
}

TEST_F(RefusedCheckpoints, OfOtherRanksHaveNothingOfARanksOwn) {
  const auto add = [&](Communicator& communicator, bool saves) {
    Chain chain(1);
    Checkpoint checkpoint;
    checkpoint.add_own("model", *chain);
    saves ? checkpoint.save(path_, 1, communicator) : static_cast<void>(checkpoint.load(path_, communicator));
  };
  run_all(2, [&](Communicator& communicator) { add(communicator, true); });
  expect_in(refusal(3, [&](Communicator& communicator) { add(communicator, false); }),
            "'model' is each rank's own: 2 ranks saved it, and there are 3: start as many");
}

TEST_F(RefusedCheckpoints, ThatAreDamagedAreLeftOutForTheOneBefore) {
  const std::string file = "/rank-1.safetensors", index = "/index.json";
  save_two();
  const std::string good = bytes_of(newest_ + file), good_index = bytes_of(newest_ + index);
  const auto expect_refused = [&](const std::string& said) {
    expect_in(refusal_of(newest_), said);
    EXPECT_EQ(resumed(), 1U) << said;
    write_to(newest_ + file, good);
    write_to(newest_ + index, good_index);
  };
  EXPECT_EQ(resumed(), 2U);
  std::string bad = good;
  bad[bad.size() / 2 + 100] ^= 1;
  write_to(newest_ + file, bad);
  expect_refused("rank 1 cannot load the checkpoint: " + newest_ + file +
                 ": it is damaged: it has another checksum");
  write_to(newest_ + file, good.substr(0, good.size() - 1));
  expect_refused(file + ": 'rank-1/random numbers' is not within it");
  write_to(newest_ + file, good + good);
  expect_refused("it has " + std::to_string(2 * good.size()) + " bytes in place of " +
                 std::to_string(good.size()));
  fs::remove(newest_ + file);
  expect_refused(file + ": open: No such file or directory");
  write_to(newest_ + file, bytes_of(path_ + "/step-1" + file));
  expect_refused(file + ": it is of step 1, and the index of step 2");
  fs::remove(newest_ + index);
  expect_in(refusal_of(path_ + "/none"), path_ + "/none: there is no checkpoint");
  EXPECT_EQ(resumed(), 1U);
  write_to(newest_ + index, bytes_of(path_ + "/step-1" + index));
  expect_refused("it is of step 2, and the index of step 1");
  std::string other = good_index.substr(good_index.find('\n') + 1);
  other.replace(other.find("\"kolo_checkpoint\":2"), 19, "\"kolo_checkpoint\":3");
  char sum[9];
  std::snprintf(sum, sizeof sum, "%08x", train::crc32_of(other.data(), other.size()));
  write_to(newest_ + index, std::string("{\"crc32\":\"") + sum + "\",\n" + other);
  expect_refused("index.json: it is of format 3, not 2");
  for (std::size_t at = 0; at < good_index.size(); at += 79) {
    bad = good_index;
    bad[at] = static_cast<char>(bad[at] ^ 1 << at % 7);
    write_to(newest_ + index, bad);
    EXPECT_EQ(resumed(), 1U) << at;
  }
  write_to(newest_ + index, "");
  write_to(path_ + "/step-1" + index, "");
  expect_in(refusal_of(path_), "step-1/index.json: it is no index of a checkpoint");
}

/// As a full disk does, for all that this process writes: files hold so many bytes.
class SmallDisk {
 public:
  explicit SmallDisk(rlim_t bytes) {
    std::signal(SIGXFSZ, SIG_IGN);
    ::getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit less{bytes, before_.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &less);
  }
  ~SmallDisk() {
    ::setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, SIG_DFL);
  }
  SmallDisk(const SmallDisk&) = delete;
  SmallDisk& operator=(const SmallDisk&) = delete;

 private:
  rlimit before_{};
};

TEST_F(RefusedCheckpoints, ThatCannotBeWrittenLeaveNothingAndTheOldOnes) {
  save_two();
  const std::vector<std::string> before = names();
  const auto save_to = [&](const std::string& path) {
    return refusal(2, [&](Communicator& communicator) {
      Chain chain(1);
      Checkpoint checkpoint;
      checkpoint.add("model", *chain);
      checkpoint.save(path, 3, communicator);
      EXPECT_THROW(checkpoint.save(path, 4, communicator), Error);  // the next call tells, and writes nothing
      checkpoint.save(path, 5, communicator);
      checkpoint.wait();
    });
  };
  {
    const SmallDisk disk(2048);
    expect_in(save_to(path_), "rank-0.safetensors: write: File too large");
  }
  EXPECT_EQ(names(), before);
  EXPECT_EQ(resumed(), 2U);
  write_to(temporary_ / "file", "");
  expect_in(save_to(temporary_ / "file"), "rank 0 cannot save the checkpoint: ");
  expect_in(save_to(temporary_ / "file/run"), "rank 0 cannot save the checkpoint: ");
}

TEST_F(RefusedCheckpoints, ArePlacedOverOnesOfTheSameStep) {
  save_two();
  fs::create_directory(path_ + "/.step-7.part");  // of a run that was killed
  write_to(newest_ + "/rank-0.safetensors", "damaged");
  EXPECT_EQ(resumed(), 1U);
  run_all(2, [&](Communicator& communicator) {
    Chain chain(2);
    Checkpoint checkpoint({.keep = 1});
    checkpoint.add("model", *chain).save(path_, 2, communicator);
  });
  EXPECT_EQ(names(), std::vector<std::string>{"step-2"});
  EXPECT_EQ(resumed(), 2U);
}

TEST_F(RefusedCheckpoints, AreLookedForByRank0Alone) {
  // As on hosts without a disk in common: each rank has a folder of its own.
  const auto error = refusal(2, [&](Communicator& communicator) {
    const std::string folder = temporary_ / std::to_string(communicator.rank());
    Chain chain(communicator.rank());
    Checkpoint checkpoint;
    checkpoint.add("model", *chain);
    fs::create_directory(folder);
    if (communicator.rank() != 0) fs::create_directories(folder + "/step-1");
    EXPECT_EQ(checkpoint.resume(folder, communicator), 0U);
    checkpoint.save(folder, 6, communicator);  // rank 0 makes a folder that rank 1 does not find
    checkpoint.wait();
  });
  expect_in(error, "rank 1 cannot save the checkpoint: ");
  expect_in(refusal(2,
                    [&](Communicator& communicator) {
                      Checkpoint().resume(temporary_ / std::string(300, 'x'), communicator);
                    }),
            "rank 0 cannot look for the checkpoint: ");
}

TEST_F(RefusedCheckpoints, KeepAtLeastOne) {
  EXPECT_THROW(Checkpoint({.keep = 0}), InvalidArgumentError);
}

}  // namespace
}  // namespace kolo::test::checkpoints
