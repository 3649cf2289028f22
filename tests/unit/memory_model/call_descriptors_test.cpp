// How ranks announce calls and reuse their descriptors: Team::announce() and Arrival::poll()
// (engine/shared_memory/announcements.cpp, own_cores.cpp), over CommSlot::descriptors
// (engine/shared_memory/segment.hpp). No rank writes a descriptor that another rank may still read.
#include <gtest/gtest.h>

#include <vector>

#include "explore.hpp"

namespace kolo::test::memory {
namespace {

using enum Order;

struct Notes {
  Order announce = release;
  Order look = acquire;
  int calls_ahead = 1;  ///< kCallsAhead
  int descriptors = 2;  ///< kDescriptors
  int calls = 4;
};

struct Note {
  Cell number;
  Cell content;
};

std::vector<Note> make_descriptors(World& world, const std::string& rank, int count) {
  std::vector<Note> descriptors;
  for (int i = 0; i < count; ++i) {
    const std::string name = rank + "'s descriptor " + std::to_string(i);
    descriptors.push_back({world.cell(name), world.cell("content of " + name)});
  }
  return descriptors;
}

Thread call_after_call(World& world, std::vector<Note> mine, std::vector<Note> theirs, Notes how) {
  int announced = 0;
  for (int finished = 0; finished < how.calls; ++finished) {
    for (; announced < how.calls && announced < finished + how.calls_ahead; ++announced) {
      const Note& descriptor = mine[static_cast<std::size_t>(announced % how.descriptors)];
      co_await descriptor.content.write(10 + announced);
      co_await descriptor.number.store(announced + 1, how.announce);
    }
    const Note& descriptor = theirs[static_cast<std::size_t>(finished % how.descriptors)];
    co_await descriptor.number.wait_for(finished + 1, how.look);
    const int content = co_await descriptor.content.read();
    world.require(content == 10 + finished, "what was read belongs to another call");
  }
}

std::string wrong_with_descriptors(Notes how) {
  return explore([=](World& world) {
           const std::vector<Note> one = make_descriptors(world, "one", how.descriptors);
           const std::vector<Note> other = make_descriptors(world, "other", how.descriptors);
           world.run("one", call_after_call(world, one, other, how));
           world.run("other", call_after_call(world, other, one, how));
         })
      .wrong;
}

TEST(NotesModel, NoNoteIsWrittenWhileAnotherRankReadsIt) {
  EXPECT_EQ(wrong_with_descriptors({}), "");
  EXPECT_EQ(wrong_with_descriptors({.calls_ahead = 2, .descriptors = 4, .calls = 5}), "");
}

TEST(NotesModel, NeedsReleaseAndAcquireAndTwiceAsManyNotesAsCallsAhead) {
  EXPECT_NE(wrong_with_descriptors({.announce = relaxed}), "");
  EXPECT_NE(wrong_with_descriptors({.look = relaxed}), "");
  EXPECT_NE(wrong_with_descriptors({.descriptors = 1}), "");
  EXPECT_NE(wrong_with_descriptors({.calls_ahead = 2, .descriptors = 3}), "");
}

}  // namespace
}  // namespace kolo::test::memory
