#include "engine/spin_beside_neighbour.hpp"

#include <gtest/gtest.h>

namespace kolo {
namespace {

using namespace std::chrono_literals;

TEST(SpinBesideNeighbour, IsForShortCallsUnlessLongOnesAreAmongThem) {
  engine::SpinBesideNeighbour spin;
  const auto now = Clock::now();
  EXPECT_EQ(spin.longest(now, false), 50us);
  EXPECT_EQ(spin.longest(now, true), 0us);
  EXPECT_EQ(spin.longest(now + 9ms, false), 0us);
  EXPECT_EQ(spin.longest(now + 10ms, false), 50us);
  EXPECT_EQ(spin.longest(now + 20ms, true), 0us);
  EXPECT_EQ(spin.longest(now + 29ms, false), 0us);
}

}  // namespace
}  // namespace kolo
