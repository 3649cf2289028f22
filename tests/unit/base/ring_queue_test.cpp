#include "base/ring_queue.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <memory>
#include <random>
#include <vector>

namespace kolo {
namespace {

TEST(RingQueue, DoesWhatADequeDoes) {
  RingQueue<int> queue;
  std::deque<int> expected;
  std::mt19937 random(1);
  for (int i = 1; i < 20'000; ++i) {
    const auto what = random() % 8;
    if (what < 3) {
      queue.push_back(i);
      expected.push_back(i);
    } else if (what == 3) {
      queue.push_front(i);
      expected.push_front(i);
    } else if (expected.empty()) {
      continue;
    } else if (what < 7) {
      queue.pop_front();
      expected.pop_front();
    } else {
      const auto at = random() % expected.size();
      queue.erase(at);
      expected.erase(expected.begin() + static_cast<std::ptrdiff_t>(at));
    }
    ASSERT_TRUE(std::ranges::equal(queue, expected)) << "after " << i;
    ASSERT_EQ(queue.size(), expected.size());
    if (!expected.empty()) {
      ASSERT_EQ(queue.front(), expected.front());
      ASSERT_EQ(queue.back(), expected.back());
      ASSERT_EQ(std::find(queue.begin(), queue.end(), expected.back()) - queue.begin(),
                std::find(expected.begin(), expected.end(), expected.back()) - expected.begin());
    }
  }
}

TEST(RingQueue, KeepsNothingThatWasRemoved) {
  const auto shared = std::make_shared<int>(1);
  RingQueue<std::shared_ptr<int>> queue;
  for (int i = 0; i < 5; ++i) queue.push_back(shared);
  queue.pop_front();
  queue.erase(2);
  EXPECT_EQ(shared.use_count(), 4);
  queue.clear();
  EXPECT_EQ(shared.use_count(), 1);
}

}  // namespace
}  // namespace kolo
