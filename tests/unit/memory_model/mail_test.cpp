// How a rank that polls only memory learns of what came through a socket: MailFlags
// (transport/shm/mail_flags.hpp) and ShmEndpoint::read() (transport/shm/endpoint.cpp). All of it is found.
#include <gtest/gtest.h>

#include "explore.hpp"

namespace kolo::test::memory {
namespace {

using enum Order;

struct Mail {
  bool clears_first = true;
  bool posts_afterwards = true;
};

/// `socket` counts the notices in it. The lock that the system has for it orders its uses.
Thread send(Cell socket, Cell mail, int notices, Mail how) {
  for (int i = 0; i < notices; ++i) {
    if (!how.posts_afterwards) co_await mail.fetch_or(1, relaxed);
    co_await socket.fetch_add(1, acq_rel);
    if (how.posts_afterwards) co_await mail.fetch_or(1, relaxed);
  }
}

Thread receive(Cell socket, Cell mail, int notices, Mail how) {
  for (int seen = 0; seen < notices;) {
    co_await mail.wait_for_at_least(1, relaxed);
    if (how.clears_first) co_await mail.exchange(0, relaxed);
    seen = co_await socket.fetch_add(0, acq_rel);
    if (!how.clears_first) co_await mail.exchange(0, relaxed);
  }
}

std::string wrong_with(Mail how) {
  return explore([=](World& world) {
           const Cell socket = world.cell("socket");
           const Cell mail = world.cell("mail");
           world.run("sender", send(socket, mail, 2, how));
           world.run("receiver", receive(socket, mail, 2, how));
         })
      .wrong;
}

TEST(MailModel, NoNoticeIsMissed) {
  EXPECT_EQ(wrong_with({}), "");
}

TEST(MailModel, TheBitIsClearedBeforeTheSocketIsReadAndSetAfterItIsWritten) {
  EXPECT_NE(wrong_with({.clears_first = false}), "");
  EXPECT_NE(wrong_with({.posts_afterwards = false}), "");
}

}  // namespace
}  // namespace kolo::test::memory
