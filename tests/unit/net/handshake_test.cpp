// The peers that the handshake accepts and refuses.
#include "net/handshake.hpp"

#include "fuzz/transport_fuzz.cpp"
#include "net/hmac.hpp"
#include "unit/transport/support.hpp"

namespace kolo::testing {
namespace {

Status deliver(net::Handshake& to, std::string bytes, std::size_t step = 1000) {
  for (std::size_t at = 0; at < bytes.size();) {
    const std::size_t size = std::min({step, bytes.size() - at, to.wanted()});
    if (size == 0) return Status(Code::rendezvous, "more than wanted");
    const auto piece = std::as_bytes(std::span(bytes)).subspan(at, size);
    if (Status status = to.feed(piece); !status.ok()) return status;
    at += size;
  }
  return Status();
}

/// Moves bytes in both directions until both sides are done or one fails.
Status converse(net::Handshake& a, net::Handshake& b, std::size_t step = 1000) {
  while (!a.done() || !b.done()) {
    if (Status status = deliver(b, a.take_output(), step); !status.ok()) return status;
    if (Status status = deliver(a, b.take_output(), step); !status.ok()) return status;
  }
  return Status();
}

TEST(Handshakes, RanksOfOneJobKnowEachOther) {
  for (const std::string key :
       {"", "secret", "a key that is much longer than one block of the hash function is, by far"}) {
    for (const std::size_t step : {1, 7, 1000}) {
      auto dialer = net::Handshake::dial({"job", key, 5}, 2);
      auto acceptor = net::Handshake::accept({"job", key, 2});
      const Status status = converse(dialer, acceptor, step);
      EXPECT_TRUE(status.ok()) << status.message();
      EXPECT_EQ(dialer.peer(), 2);
      EXPECT_EQ(acceptor.peer(), 5);
      EXPECT_EQ(dialer.wanted() + acceptor.wanted(), 0u);
      EXPECT_FALSE(dialer.feed(std::as_bytes(std::span("x", 1))).ok());
    }
  }
}

TEST(Handshakes, StrangersAreRefused) {
  struct Pair {
    net::Identity dialer;
    int wanted;
    net::Identity acceptor;
  };
  const Pair pairs[] = {
      {{"job", "right", 1}, 0, {"job", "wrong", 0}}, {{"job", "", 1}, 0, {"job", "key", 0}},
      {{"job", "key", 1}, 0, {"job2", "key", 0}},    {{"job", "key", 1}, 0, {"job", "key", 3}},
      {{"job", "key", -7}, 0, {"job", "key", 0}},
  };
  for (const Pair& pair : pairs) {
    auto dialer = net::Handshake::dial(pair.dialer, pair.wanted);
    auto acceptor = net::Handshake::accept(pair.acceptor);
    EXPECT_FALSE(converse(dialer, acceptor).ok());
    EXPECT_FALSE(dialer.done());
    EXPECT_FALSE(acceptor.done());
  }
}

TEST(Handshakes, BothSidesHearWhy) {
  struct Case {
    net::Identity dialer, acceptor;
    const char* said;
  };
  const Case cases[] = {
      {{"job", "key", 1}, {"job", "other", 0}, "KOLO_KEY"},
      {{"job", "key", 1}, {"job", "", 0}, "KOLO_KEY"},
      {{"job", "", 1}, {"job", "key", 0}, "KOLO_KEY"},
      {{"job", "key", 1}, {"other", "key", 0}, "another job"},
      {{"job", "key", 1}, {"job", "key", 2}, "rank"},
      {{"job", "key", 1, net::Encryption::key}, {"job", "key", 0}, "KOLO_TLS"},
      {{"job", "key", 1}, {"job", "key", 0, net::Encryption::key}, "KOLO_TLS"},
      {{"job", "key", 1, net::Encryption::key},
       {"job", "key", 0, net::Encryption::certificates},
       "KOLO_TLS_CERT"},
      {{"job", "key", 1, net::Encryption::none, 7},
       {"job", "key", 0, net::Encryption::none, 8},
       "same version"},
  };
  for (const Case& one : cases) {
    auto dialer = net::Handshake::dial(one.dialer, 0);
    auto acceptor = net::Handshake::accept(one.acceptor);
    Status heard[2];
    for (int turn = 0; turn < 4 && (heard[0].ok() || heard[1].ok()); ++turn) {
      if (heard[1].ok()) heard[1] = deliver(acceptor, dialer.take_output());
      if (heard[0].ok()) heard[0] = deliver(dialer, acceptor.take_output());
    }
    for (const Status& status : heard) {
      EXPECT_NE(status.message().find(one.said), std::string::npos) << one.said << ": " << status.message();
    }
    EXPECT_TRUE(dialer.began() && acceptor.began());
  }
}

TEST(Handshakes, AnotherVersionSaysSo) {
  auto acceptor = net::Handshake::accept({"job", "key", 0});
  const std::string hello = "koloHEL9, shorter";  // another version may differ in all later bytes
  const Status refused = acceptor.feed(std::as_bytes(std::span(hello)));
  EXPECT_NE(refused.message().find("version 9"), std::string::npos) << refused.message();
  const std::string refusal = acceptor.take_output();
  ASSERT_TRUE(refusal.starts_with("koloREF2"));
  auto dialer = net::Handshake::dial({"job", "key", 1}, 0);
  const std::string theirs = "koloREF9";
  EXPECT_NE(dialer.feed(std::as_bytes(std::span(theirs))).message().find("version 9"), std::string::npos);
}

TEST(Handshakes, EndWithASecretOfTheirOwn) {
  std::string secrets[2];
  for (std::string& secret : secrets) {
    auto dialer = net::Handshake::dial({"job", "key", 1}, 0);
    auto acceptor = net::Handshake::accept({"job", "key", 0});
    ASSERT_TRUE(converse(dialer, acceptor).ok());
    secret = dialer.secret();
    EXPECT_EQ(secret, acceptor.secret());
    EXPECT_EQ(secret.size(), 32u);
  }
  EXPECT_NE(secrets[0], secrets[1]);
}

TEST(Hmac, IsRfc4231s) {  // test case 2
  const std::string mac = net::hmac("Jefe", "what do ya want for nothing?");
  EXPECT_EQ(static_cast<unsigned char>(mac[0]), 0x5b);
  EXPECT_EQ(static_cast<unsigned char>(mac[1]), 0xdc);
  EXPECT_EQ(static_cast<unsigned char>(mac[31]), 0x43);
}

TEST(Handshakes, EveryByteCounts) {
  // Flips one bit of the whole exchange at a time: at least one side must notice.
  for (std::size_t flipped = 0;; ++flipped) {
    auto dialer = net::Handshake::dial({"job", "key", 1}, 0);
    auto acceptor = net::Handshake::accept({"job", "key", 0});
    std::size_t seen = 0;
    bool changed = false;
    const auto carry = [&](net::Handshake& from, net::Handshake& to) {
      std::string bytes = from.take_output();
      if (flipped >= seen && flipped < seen + bytes.size()) {
        bytes[flipped - seen] ^= 1 << flipped % 8;
        changed = true;
      }
      seen += bytes.size();
      return deliver(to, bytes);
    };
    bool refused = false;
    for (int round = 0; round < 2 && !refused; ++round) {
      refused = !carry(dialer, acceptor).ok() || !carry(acceptor, dialer).ok();
    }
    if (!changed) {
      EXPECT_TRUE(dialer.done() && acceptor.done());
      EXPECT_EQ(flipped, seen);
      break;
    }
    EXPECT_TRUE(refused) << "byte " << flipped;
  }
}

TEST(Handshakes, NothingCanBeReplayedOrReflected) {
  auto dialer = net::Handshake::dial({"job", "key", 1}, 0);
  auto acceptor = net::Handshake::accept({"job", "key", 0});
  const std::string hello = dialer.take_output();
  ASSERT_TRUE(deliver(acceptor, hello).ok());
  const std::string challenge = acceptor.take_output();
  ASSERT_TRUE(deliver(dialer, challenge).ok());
  const std::string proof = dialer.take_output();

  auto later = net::Handshake::accept({"job", "key", 0});  // it has another nonce
  ASSERT_TRUE(deliver(later, hello).ok());
  EXPECT_FALSE(deliver(later, proof).ok());

  auto mirror = net::Handshake::dial({"job", "key", 1}, 0);
  EXPECT_FALSE(deliver(mirror, mirror.take_output() + std::string(32, 'x')).ok());
  auto other = net::Handshake::dial({"job", "key", 1}, 0);
  EXPECT_FALSE(deliver(other, challenge).ok()) << "an answer to another hello";
}

TEST(Handshakes, NonsenseIsSurvived) {
  Watchdog watchdog(seconds(100));
  std::mt19937 random(20240607);
  const std::string seeds[] = {
      net::Handshake::dial({"job", "key", 1}, 3).take_output(),
      [] {
        auto acceptor = net::Handshake::accept({"job", "key", 1});
        std::string hello = net::Handshake::dial({"job", "key", 3}, 1).take_output();
        EXPECT_TRUE(deliver(acceptor, hello).ok());
        return acceptor.take_output() + std::string(40, 'w');
      }(),
      transport::shm::Address::make("1").text(),
      "host=1;at=10.0.0.1:4000,[fd00::1]:4000,127.0.0.1:65535",
      "host=1;at=1.2.3.4:0",
      "",
  };
  for (int i = 0; i < 6000; ++i) {
    std::string input = seeds[random() % std::size(seeds)];
    if (random() % 8 == 0) {
      input.resize(random() % 400);
      for (char& c : input) c = static_cast<char>(random());
    }
    for (unsigned changes = random() % 4; changes > 0 && !input.empty(); --changes) {
      const std::size_t at = random() % input.size();
      switch (random() % 4) {
        case 0:
          input[at] = static_cast<char>(random());
          break;
        case 1:
          input.erase(at, random() % 9);
          break;
        case 2:
          input.insert(at, random() % 9, static_cast<char>(random()));
          break;
        default:
          input += input.substr(at);
      }
    }
    LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(input.data()), input.size());
  }
}

}  // namespace
}  // namespace kolo::testing
