// GossipAverager: models meet in pairs, keep their mean and come to agree.
#include "methods/gossip_averager.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <functional>
#include <limits>
#include <set>
#include <string>

#include "kolo/error.hpp"
#include "kolo/train/checkpoint.hpp"
#include "kolo/train/local.hpp"
#include "train/local/training.hpp"
#include "train/support/ranks.hpp"

namespace kolo::test::local {
namespace {

using methods::GossipAverager;

class GossipAveragerTest : public testing::Test {
 protected:
  void SetUp() override { at::set_num_threads(1); }
};

TEST_F(GossipAveragerTest, TheMeanStaysAndModelsComeToAgree) {
  for (const int ranks : {2, 3, 4, 5}) {
    run_all(ranks, [ranks](Communicator& communicator) {
      Chain chain = chain64(1);
      GossipAverager gossip(*chain, communicator);
      fill(*chain, 10 * communicator.rank());
      const at::Tensor mean = everyones(communicator, flat_of(chain->parameters())).mean(0);
      std::set<int> peers;
      for (int round = 0; round < 40; ++round) {
        peers.insert(gossip.next_peer());
        EXPECT_TRUE(gossip.step());
        const at::Tensor all = everyones(communicator, flat_of(chain->parameters()));
        EXPECT_LT(distance(all.mean(0), mean), 1e-12) << ranks << " ranks, round " << round;
        // 2 and 4: as many rounds as their logarithm.
        if (ranks == 2 || (ranks == 4 && round > 0)) {
          EXPECT_LT(distance(all, mean), 1e-12) << round;
        }
      }
      EXPECT_LT(distance(flat_of(chain->parameters()), mean), 1e-6) << ranks;
      EXPECT_EQ(peers.size(), ranks == 2 ? 1u : ranks <= 4 ? 2u : 3u);
      EXPECT_FALSE(peers.contains(communicator.rank()));
    });
  }
}

TEST_F(GossipAveragerTest, OneRoundIsTheMeanWithTheRankThatSends) {
  run_all(3, [](Communicator& communicator) {
    Chain chain(1);
    GossipAverager gossip(*chain, communicator, {.period = 2});
    const c10::NoGradGuard no_grad;
    const int rank = communicator.rank();
    const auto round_of = [&](float value) {
      for (at::Tensor& parameter : chain->parameters()) parameter.fill_(value);
      EXPECT_FALSE(gossip.step());
      EXPECT_TRUE(gossip.step());
      return flat_of(chain->parameters())[0].item().toFloat();
    };
    EXPECT_EQ(round_of(static_cast<float>(rank)), static_cast<float>(rank + (rank + 2) % 3) / 2);
    EXPECT_EQ(round_of(static_cast<float>(rank)), static_cast<float>(rank + (rank + 1) % 3) / 2);
    EXPECT_EQ(gossip.total().bytes,
              2 * 4u * static_cast<std::uint64_t>(flat_of(chain->parameters()).numel()));
  });
}

TEST_F(GossipAveragerTest, ARankAloneKeepsItsModel) {
  run_all(1, [](Communicator& communicator) {
    Chain chain(1);
    const auto before = bits(chain->parameters());
    GossipAverager gossip(*chain, communicator);
    EXPECT_FALSE(gossip.step());
    EXPECT_EQ(gossip.next_peer(), 0);
    EXPECT_EQ(bits(chain->parameters()), before);
  });
}

TEST_F(GossipAveragerTest, AModelThatIsNotFiniteEndsItOnAllRanks) {
  for (const auto& error : run_ranks(5, [](Communicator& communicator) {
         Chain chain(1);
         GossipAverager gossip(*chain, communicator);
         const c10::NoGradGuard no_grad;
         if (communicator.rank() == 3) chain->first->weight[0][0] = std::numeric_limits<float>::quiet_NaN();
         for (int round = 0; round < 9; ++round) gossip.step();
       })) {
    EXPECT_NE(message(error).find("rank 3 aborted: GossipAverager: its model is not finite in step 1"),
              std::string::npos)
        << message(error);
  }
}

TEST_F(GossipAveragerTest, TheAverageOfAllIsThereForAWhile) {
  run_all(3, [](Communicator& communicator) {
    WithBuffers model;
    fill(*model, 10 * communicator.rank());
    const c10::NoGradGuard no_grad;
    model->norm->running_var.fill_(1 + communicator.rank());
    const auto before = bits(model->parameters()), buffers = bits(model->buffers());
    const at::Tensor mean = everyones(communicator, flat_of(model->parameters())).mean(0);
    {
      const AveragedModel averaged(*model, communicator);
      EXPECT_LT(distance(flat_of(model->parameters()), mean), 1e-6);
      EXPECT_TRUE(at::equal(model->norm->running_var, at::full({4}, 2.0)));
      EXPECT_TRUE(same_everywhere(communicator, bits(model->parameters())));
    }
    EXPECT_EQ(bits(model->parameters()), before);
    EXPECT_EQ(bits(model->buffers()), buffers);
  });
}

/// All ranks throw an error with this text.
void expect_said(const std::string& said, int ranks, const std::function<void(Communicator&)>& body) {
  for (const auto& error : run_ranks(ranks, body))
    EXPECT_NE(message(error).find(said), std::string::npos) << message(error);
}

TEST_F(GossipAveragerTest, RefusesOnAllRanksWhatItCannotAverage) {
  expect_said("GossipAverager: rank 0: a period of 0 steps", 4, [](Communicator& communicator) {
    Chain chain(1);
    GossipAverager(*chain, communicator, {.period = 0});
  });
  expect_said("rank 2 has 'first.weight' Float [24, 8] where rank 0 has 'first.weight' Float [16, 8]", 4,
              [](Communicator& communicator) {
                Chain chain(1, communicator.rank() == 2 ? 24 : 16);
                GossipAverager(*chain, communicator);
              });
  expect_said("rank 1 has 'third.bias' is frozen where", 3, [](Communicator& communicator) {
    Chain chain(1);
    chain->third->bias.set_requires_grad(communicator.rank() != 1);
    GossipAverager(*chain, communicator);
  });
  expect_said("GossipAverager: rank 1: parameter 'odd': ", 3, [](Communicator& communicator) {
    Chain chain(1);
    if (communicator.rank() == 1) chain->register_parameter("odd", at::zeros({2}, at::kComplexHalf));
    GossipAverager(*chain, communicator);
  });
}

TEST_F(GossipAveragerTest, AParameterThatIsThawedEndsItOnAllRanks) {
  expect_said("parameter 'third.bias' was frozen at first and is not now", 3, [](Communicator& communicator) {
    Chain chain(1);
    chain->third->bias.set_requires_grad(false);
    GossipAverager averager(*chain, communicator);
    if (communicator.rank() == 0) chain->third->bias.set_requires_grad(true);
    averager.step();
    averager.step();
  });
}

TEST_F(GossipAveragerTest, GoesOnWithTheSamePeersFromACheckpoint) {
  const std::string path = testing::TempDir() + "kolo-gossip";
  run_all(3, [&](Communicator& communicator) {
    Chain chain(communicator.rank()), other(9);
    GossipAverager averager(*chain, communicator, {.period = 2}), again(*other, communicator, {.period = 2});
    for (int step = 0; step < 3; ++step) averager.step();
    Checkpoint saved, loaded;
    saved.add_own("model", *chain).add("gossip", averager).save(path, 3, communicator);
    saved.wait();
    loaded.add_own("model", *other).add("gossip", again);
    EXPECT_EQ(loaded.load(path, communicator), 3u);
    for (int step = 3; step < 9; ++step) {
      EXPECT_EQ(again.next_peer(), averager.next_peer());
      EXPECT_EQ(again.step(), averager.step());
      EXPECT_EQ(bits(other->parameters()), bits(chain->parameters()));
    }
  });
  std::filesystem::remove_all(path);
}

}  // namespace
}  // namespace kolo::test::local
