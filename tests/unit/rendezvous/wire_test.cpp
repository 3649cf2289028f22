// The messages and the session of the store, with thousands of damaged inputs.
#include "rendezvous/wire.hpp"

#include <random>

#include "fuzz/store_wire.hpp"
#include "watchdog.hpp"

namespace kolo::rendezvous::wire {
namespace {

std::vector<Message> examples() {
  return {{Kind::set, 0, {"key", "value"}},
          {Kind::get, 1'000'000, {"key"}},
          {Kind::get, -1, {"other"}},
          {Kind::add, -7, {"n"}},
          {Kind::wait, 0, {"key", "a", "b", ""}},
          {Kind::remove, 0, {std::string("\0\xff", 2)}},
          {Kind::set, 0, {"", std::string(5000, 'v')}}};
}

TEST(Wire, ReadsBackWhatItWrites) {
  for (const Message& message : examples()) {
    const std::string frame = rendezvous::wire::encode(message);
    EXPECT_EQ(rendezvous::wire::body_bytes(frame).value_or_throw(),
              frame.size() - rendezvous::wire::kHeadBytes);
    EXPECT_EQ(rendezvous::wire::decode(std::string_view(frame).substr(rendezvous::wire::kHeadBytes))
                  .value_or_throw(),
              message);
    EXPECT_TRUE(rendezvous::wire::check_request(message).ok());
  }
}

TEST(Wire, RefusesEveryTruncationAndEveryTail) {
  for (const Message& message : examples()) {
    const std::string body = rendezvous::wire::encode(message).substr(rendezvous::wire::kHeadBytes);
    for (std::size_t length = 0; length < std::min<std::size_t>(body.size(), 200); ++length) {
      EXPECT_FALSE(rendezvous::wire::decode(std::string_view(body).substr(0, length)).ok());
    }
    EXPECT_FALSE(rendezvous::wire::decode(body + "x").ok());
  }
}

TEST(Wire, RequestsNeedTheirItems) {
  for (const Message& wrong :
       {Message{Kind::set, 0, {"key"}}, Message{Kind::get, 0, {}}, Message{Kind::add, 1, {"a", "b"}},
        Message{Kind::done, 0, {}}, Message{Kind::get, 0, {std::string(1025, 'k')}},
        Message{Kind::set, 0, {"key", std::string((1 << 20) + 1, 'v')}}}) {
    EXPECT_FALSE(rendezvous::wire::check_request(wrong).ok());
  }
}

std::string damaged(std::mt19937& random, std::string bytes) {
  for (auto changes = random() % 4; changes > 0 && !bytes.empty(); --changes) {
    const auto at = random() % bytes.size();
    switch (random() % 3) {
      case 0:
        bytes[at] = static_cast<char>(random());
        break;
      case 1:
        bytes.erase(at, 1 + random() % 8);
        break;
      default:
        bytes.insert(at, 1 + random() % 8, static_cast<char>(random()));
    }
  }
  return bytes;
}

TEST(Wire, DamagedMessagesAreReadOrRefused) {
  std::mt19937 random(1);
  for (int i = 0; i < 20'000; ++i) {
    const auto all = examples();
    fuzz::wire_message(damaged(
        random, rendezvous::wire::encode(all[random() % all.size()]).substr(rendezvous::wire::kHeadBytes)));
  }
}

TEST(Session, SurvivesDamagedConversations) {
  std::mt19937 random(2);
  const auto all = examples();
  for (int i = 0; i < 3000; ++i) {
    std::string talk(1, static_cast<char>(random()));
    for (int m = 0; m < 4; ++m) talk += damaged(random, rendezvous::wire::encode(all[random() % all.size()]));
    fuzz::session(talk);
  }
}

TEST(Session, AnswersRequestsThatArriveByteByByte) {
  const auto now = Clock::now();
  rendezvous::Table table;
  bool changed = false;
  rendezvous::Session session({"key"}, now);
  ASSERT_TRUE(fuzz::prove(session, table, "key", 1));
  const std::string input = rendezvous::wire::encode({Kind::set, 0, {"k", "v"}}) +
                            rendezvous::wire::encode({Kind::get, 0, {"k"}}) +
                            rendezvous::wire::encode({Kind::get, 0, {"absent"}});
  for (const char byte : input) {
    ASSERT_TRUE(session.receive({&byte, 1}));
    ASSERT_TRUE(session.advance(table, now, changed));
  }
  EXPECT_TRUE(changed);
  EXPECT_EQ(session.output(), rendezvous::wire::encode({Kind::done, 0, {}}) +
                                  rendezvous::wire::encode({Kind::done, 0, {"v"}}) +
                                  rendezvous::wire::encode({Kind::late, 0, {}}));
}

TEST(Session, EndsAStrangersPatience) {
  const auto now = Clock::now();
  rendezvous::Table table;
  bool changed = false;
  rendezvous::Session session({"key"}, now);
  EXPECT_TRUE(session.advance(table, session.wake() - std::chrono::nanoseconds(1), changed));
  EXPECT_FALSE(session.advance(table, session.wake(), changed));
}

TEST(Session, RemovedKeysAreMissingAgain) {
  const auto now = Clock::now();
  rendezvous::Table table;
  bool changed = false;
  rendezvous::Session session({""}, now);
  ASSERT_TRUE(fuzz::prove(session, table, ""));
  ASSERT_TRUE(session.receive(rendezvous::wire::encode({Kind::wait, 1'000'000'000, {"a", "b"}})));
  table.set("b", "");
  ASSERT_TRUE(session.advance(table, now, changed));  // sees b
  table.remove("b");
  table.set("a", "");
  ASSERT_TRUE(session.advance(table, now, changed));
  EXPECT_TRUE(session.waiting()) << "b is gone";
  ASSERT_TRUE(session.advance(table, session.wake(), changed));
  EXPECT_EQ(session.output(), rendezvous::wire::encode({Kind::done, 0, {"b"}}));
}

TEST(Session, AnotherKeyIsRefusedWithTheReason) {
  rendezvous::Table table;
  for (const char* key : {"", "KEY", "key "}) {
    rendezvous::Session session({"key"}, Clock::now());
    EXPECT_FALSE(fuzz::prove(session, table, key)) << key;
    EXPECT_FALSE(session.trusted());
  }
}

// A proof is valid for one side, one server and one connection only.
TEST(Session, NothingOverheardServesAgain) {
  rendezvous::Table table;
  bool changed = false;
  const auto now = Clock::now();
  rendezvous::Session first({"key"}, now), second({"key"}, now);
  net::Handshake client = net::Handshake::dial(rendezvous::store_identity({"key"}), 0);
  const std::string hello = client.take_output();
  for (rendezvous::Session* session : {&first, &second}) {
    ASSERT_TRUE(session->receive(hello) && session->advance(table, now, changed));
  }
  const std::string challenge = first.output();
  ASSERT_TRUE(client.feed(std::as_bytes(std::span(challenge))).ok());
  const std::string proof = client.take_output();
  ASSERT_TRUE(second.receive(proof));
  EXPECT_FALSE(second.advance(table, now, changed));
  EXPECT_NE(second.trouble().find("KOLO_KEY"), std::string::npos) << second.trouble();
}

}  // namespace
}  // namespace kolo::rendezvous::wire
