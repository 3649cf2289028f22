// How ranks announce calls and reuse their notes: Group::announce() and Group::look_for_notes()
// (engine/native/group.cpp), over CommSlot::notes (transport/shared_segment.hpp). No rank writes a note that
// another rank may still read.
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
  int notes = 2;        ///< kNotes
  int calls = 4;
};

struct Note {
  Cell number;
  Cell content;
};

std::vector<Note> make_notes(World& world, const std::string& rank, int count) {
  std::vector<Note> notes;
  for (int i = 0; i < count; ++i) {
    const std::string name = rank + "'s note " + std::to_string(i);
    notes.push_back({world.cell(name), world.cell("content of " + name)});
  }
  return notes;
}

Thread call_after_call(World& world, std::vector<Note> mine, std::vector<Note> theirs, Notes how) {
  int announced = 0;
  for (int finished = 0; finished < how.calls; ++finished) {
    for (; announced < how.calls && announced < finished + how.calls_ahead; ++announced) {
      const Note& note = mine[static_cast<std::size_t>(announced % how.notes)];
      co_await note.content.write(10 + announced);
      co_await note.number.store(announced + 1, how.announce);
    }
    const Note& note = theirs[static_cast<std::size_t>(finished % how.notes)];
    co_await note.number.wait_for(finished + 1, how.look);
    const int content = co_await note.content.read();
    world.require(content == 10 + finished, "what was read belongs to another call");
  }
}

std::string wrong_with_notes(Notes how) {
  return explore([=](World& world) {
           const std::vector<Note> one = make_notes(world, "one", how.notes);
           const std::vector<Note> other = make_notes(world, "other", how.notes);
           world.run("one", call_after_call(world, one, other, how));
           world.run("other", call_after_call(world, other, one, how));
         })
      .wrong;
}

TEST(NotesModel, NoNoteIsWrittenWhileAnotherRankReadsIt) {
  EXPECT_EQ(wrong_with_notes({}), "");
  EXPECT_EQ(wrong_with_notes({.calls_ahead = 2, .notes = 4, .calls = 5}), "");
}

TEST(NotesModel, NeedsReleaseAndAcquireAndTwiceAsManyNotesAsCallsAhead) {
  EXPECT_NE(wrong_with_notes({.announce = relaxed}), "");
  EXPECT_NE(wrong_with_notes({.look = relaxed}), "");
  EXPECT_NE(wrong_with_notes({.notes = 1}), "");
  EXPECT_NE(wrong_with_notes({.calls_ahead = 2, .notes = 3}), "");
}

}  // namespace
}  // namespace kolo::test::memory
