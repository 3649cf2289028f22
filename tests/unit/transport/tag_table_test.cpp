// A TagTable gives what a plain list searched from its front gives, with few values and with many.
#include "transport/tag_table.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <list>
#include <random>
#include <utility>
#include <vector>

namespace kolo::transport {
namespace {

using Entries = std::vector<std::pair<Tag, int>>;

TEST(TagTable, GivesWhatAListGives) {
  std::mt19937 random(1);
  TagTable<int> table;
  std::list<std::pair<Tag, int>> list;
  const auto some_tag = [&] {
    return Tag{static_cast<std::uint32_t>(random() % 2), static_cast<std::uint32_t>(random() % 3),
               random() % 100};
  };
  const auto entries_of = [](auto&& for_each) {
    Entries entries;
    for_each([&](const Tag& tag, int value) { entries.emplace_back(tag, value); });
    return entries;
  };
  for (int i = 0; i < 20'000; ++i) {
    const std::size_t wanted = i / 1000 % 2 == 0 ? 300 : 10;  // grows and empties again and again
    if (list.size() < wanted && random() % 4 != 0) {
      const Tag tag = some_tag();  // sometimes one that is there already
      table.add(tag, i);
      list.emplace_back(tag, i);
      ASSERT_EQ(table.back(), i);
    } else {
      const Tag tag = !list.empty() && random() % 2 == 0 ? list.front().first : some_tag();
      const auto found = std::ranges::find(list, tag, &std::pair<Tag, int>::first);
      ASSERT_EQ(table.contains(tag), found != list.end());
      if (found == list.end()) {
        ASSERT_EQ(table.find(tag), nullptr);
        ASSERT_FALSE(table.take(tag));
      } else {
        ASSERT_EQ(*table.find(tag), found->second);
        ASSERT_EQ(table.take(tag), found->second);
        list.erase(found);
      }
    }
    ASSERT_EQ(table.size(), list.size());
    if (i % 100 != 0) continue;
    ASSERT_EQ(entries_of([&](auto f) { table.for_each(f); }), Entries(list.begin(), list.end()));
    const Tag tag = some_tag();
    Entries of_one;
    std::ranges::copy_if(list, std::back_inserter(of_one), [&](const auto& entry) {
      return entry.first.context == tag.context && entry.first.sequence == tag.sequence;
    });
    ASSERT_EQ(entries_of([&](auto f) { table.for_each_of(tag.context, tag.sequence, f); }), of_one);
    if (i % 5000 != 0) continue;
    table.clear();
    list.clear();
    ASSERT_TRUE(table.empty());
  }
}

}  // namespace
}  // namespace kolo::transport
