// Plans are kept by everything that decides how a call runs.
#include "comm/plan_cache.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <vector>

namespace kolo {
namespace {

using schedule::CallKey;

/// Counts how often a plan is made.
class Plans {
 public:
  const engine::PreparedCall* get(const CallKey& key) {
    return &cache_.get(key, [&] {
      ++made_;
      auto prepared = std::make_shared<engine::PreparedCall>();
      prepared->key = key;
      return prepared;
    });
  }
  int made() const { return made_; }

 private:
  comm::PlanCache cache_;
  int made_ = 0;
};

TEST(PlanCache, TellsKeysApartByEveryField) {
  const std::vector<CallKey> keys{{},
                                  {.collective = schedule::Collective::reduce},
                                  {.dtype = DType::float64},
                                  {.op = ReduceOp::max},
                                  {.wire = Wire::int8},
                                  {.commutative = false},
                                  {.in_place = true},
                                  {.root = 1},
                                  {.root = -1},
                                  {.count = 1},
                                  {.segment_bytes = 64},
                                  {.algorithm = "ring"},
                                  {.custom = "mine"},
                                  {.parts = {0}},
                                  {.parts = {0, 0}}};
  Plans plans;
  std::vector<const engine::PreparedCall*> first;
  for (const CallKey& key : keys) first.push_back(plans.get(key));
  for (std::size_t i = 0; i < keys.size(); ++i) EXPECT_EQ(plans.get(keys[i]), first[i]) << i;
  EXPECT_EQ(plans.made(), static_cast<int>(keys.size()));
}

// Sizes of powers of two are the usual ones, and often alternate.
TEST(PlanCache, SizesThatAlternateKeepTheirPlans) {
  Plans plans;
  for (int turn = 0; turn < 3; ++turn) {
    for (std::uint64_t count = 1; count <= std::uint64_t{1} << 40; count *= 2) plans.get({.count = count});
  }
  EXPECT_EQ(plans.made(), 41);
}

TEST(PlanCache, HoldsAFewHundredAndForgetsThenMore) {
  Plans plans;
  for (std::uint64_t count = 0; count < 1000; ++count) plans.get({.count = count});
  plans.get({.count = 999});
  EXPECT_EQ(plans.made(), 1000);
  plans.get({.count = 0});
  EXPECT_EQ(plans.made(), 1001);
}

TEST(CallKey, HashesOfUsualSizesDifferInTheirUpperBits) {
  std::vector<int> slots(64);
  for (int bits = 0; bits < 32; ++bits) {
    const CallKey key{.count = std::uint64_t{1} << bits};
    ++slots[key.hash() >> 58];
  }
  // 32 balls thrown into 64 slots fill about 25 of them.
  EXPECT_GE(std::ranges::count_if(slots, [](int held) { return held > 0; }), 20);
}

}  // namespace
}  // namespace kolo
