// Tests that the endpoints of every transport must pass.
#include <algorithm>
#include <atomic>
#include <cstring>
#include <thread>

#include "kolo/memory.hpp"
#include "unit/transport/support.hpp"

namespace kolo::testing {
namespace {

class Endpoints : public ::testing::TestWithParam<Variant> {
 protected:
  void SetUp() override {
    const bool wants_ipv6 = std::string_view(GetParam().interface).find(':') != std::string_view::npos;
    if (wants_ipv6 && !make_transport(GetParam(), "probe", "").ok())
      GTEST_SKIP() << "no IPv6 on this machine";
  }

  Watchdog watchdog_{seconds(100)};
};

std::string first_error(const Group& group) {
  for (const Status& error : group.errors) {
    if (!error.ok()) return error.message();
  }
  return {};
}

#define CONNECT(group, size)                     \
  Group group = connect_group(GetParam(), size); \
  ASSERT_TRUE(group.ok()) << first_error(group)

TEST_P(Endpoints, ConnectEachWithEach) {
  for (int size = 2; size <= 5; ++size) {
    CONNECT(group, size);
    for (int a = 0; a < size; ++a) {
      for (int b = 0; b < size; ++b) {
        if (a == b) continue;
        EXPECT_EQ(group.at(a, b).transport(), GetParam().transport);
        EXPECT_FALSE(group.at(a, b).describe().empty());
        const transport::TransportFactory& kind = *transport::find_transport(GetParam().transport);
        EXPECT_EQ(group.at(a, b).can_pull(), kind.pulls);
        EXPECT_EQ(group.at(a, b).local_peer() != nullptr, kind.shares_memory);
        const std::uint32_t word = 100 * a + b;
        ASSERT_TRUE(send_all(group.at(a, b), std::as_bytes(std::span(&word, 1))).ok());
      }
    }
    for (int a = 0; a < size; ++a) {
      for (int b = 0; b < size; ++b) {
        if (a == b) continue;
        std::uint32_t word = 0;
        ASSERT_TRUE(receive_all(group.at(b, a), std::as_writable_bytes(std::span(&word, 1))).ok());
        EXPECT_EQ(word, 100u * a + b);
      }
    }
  }
}

TEST_P(Endpoints, LateRanksAreWaitedFor) {
  for (const int late : {0, 1, 2}) {
    const Group group = connect_group(GetParam(), 3, {.late = late});
    EXPECT_TRUE(group.ok()) << first_error(group);
  }
}

TEST_P(Endpoints, AddressesArePrintableAndReachEachOther) {
  auto one = make_transport(GetParam(), "a", "k");
  auto other = make_transport(GetParam(), "a", "k");
  ASSERT_TRUE(one.ok() && other.ok());
  const std::string a = (*one)->address(), b = (*other)->address();
  for (const std::string& address : {a, b}) {
    EXPECT_LE(address.size(), 1024u);
    for (const char c : address) EXPECT_TRUE(c >= ' ' && c < 127) << address;
  }
  EXPECT_NE(a, b);
  EXPECT_EQ((*one)->name(), GetParam().transport);
  EXPECT_TRUE((*one)->reaches(a, b) && (*one)->reaches(b, a) && (*other)->reaches(a, b));
  for (const char* nonsense : {"", "x", ".", ";;;;", "host=;at=", "\n", "%s%s%n"}) {
    EXPECT_FALSE((*one)->reaches(a, nonsense)) << nonsense;
    EXPECT_FALSE((*one)->reaches(nonsense, a)) << nonsense;
    EXPECT_FALSE((*one)->reaches(nonsense, nonsense)) << nonsense;
  }
}

TEST_P(Endpoints, BytesArriveInOrderAndIntactBothWays) {
  CONNECT(group, 2);
  constexpr std::size_t kBytes = 6 << 20;
  const auto from_0 = pattern(kBytes, 1), from_1 = pattern(kBytes, 2);
  const auto run = [&](int rank) {
    transport::Endpoint& endpoint = group.at(rank, 1 - rank);
    const auto& out = rank == 0 ? from_0 : from_1;
    const auto& expected = rank == 0 ? from_1 : from_0;
    std::vector<std::byte> in(kBytes);
    std::mt19937 random(17 + rank);
    std::size_t sent = 0, received = 0;
    const auto size = [&](std::size_t left) {  // mostly small, sometimes large
      const std::size_t limit = random() % 4 == 0 ? 700'000 : 300;
      return std::min<std::size_t>(left, random() % limit + 1);
    };
    while (sent < kBytes || received < kBytes) {
      bool moved = false;
      if (sent < kBytes) {
        iovec parts[3];
        std::size_t at = sent;
        for (iovec& part : parts) {
          const std::size_t length = random() % 5 == 0 ? 0 : std::min(kBytes - at, size(kBytes - sent));
          part = {const_cast<std::byte*>(out.data() + at), length};
          at += length;
        }
        const auto wrote = endpoint.write(parts);
        ASSERT_TRUE(wrote.ok()) << wrote.status().message();
        ASSERT_LE(wrote.value(), at - sent);
        sent += wrote.value();
        moved |= wrote.value() > 0 || at == sent;
      }
      if (received < kBytes) {
        const auto got = endpoint.read({in.data() + received, size(kBytes - received)});
        ASSERT_TRUE(got.ok()) << got.status().message();
        received += got.value();
        moved |= got.value() > 0;
      }
      if (!moved) {
        ASSERT_TRUE(sleep_on(endpoint, sent < kBytes).ok());
      }
    }
    EXPECT_EQ(std::memcmp(in.data(), expected.data(), kBytes), 0);
  };
  std::thread other([&] { run(1); });
  run(0);
  other.join();
}

TEST_P(Endpoints, AFullStreamPushesBackAndGoesOn) {
  CONNECT(group, 2);
  const auto data = pattern(64 << 20, 3);
  std::size_t sent = 0;
  for (auto quiet = 0; quiet < 50 && sent < data.size();) {  // tcp delivers bytes for a while
    const iovec part{const_cast<std::byte*>(data.data() + sent), data.size() - sent};
    const auto wrote = group.at(0, 1).write({&part, 1});
    ASSERT_TRUE(wrote.ok());
    sent += wrote.value();
    quiet = wrote.value() > 0 ? 0 : quiet + 1;
    if (quiet > 0) std::this_thread::sleep_for(milliseconds(1));
  }
  EXPECT_GT(sent, 0u);
  EXPECT_LT(sent, data.size()) << "nothing pushed back";
  std::thread sender([&] {
    const Status status = send_all(group.at(0, 1), std::span(data).subspan(sent));
    EXPECT_TRUE(status.ok()) << status.message();
  });
  std::vector<std::byte> in(data.size());
  const Status status = receive_all(group.at(1, 0), in);
  EXPECT_TRUE(status.ok()) << status.message();
  sender.join();
  EXPECT_TRUE(in == data);
}

TEST_P(Endpoints, ArmDoesNotSleepOnWhatIsThere) {
  CONNECT(group, 2);
  const std::uint32_t word = 7;
  ASSERT_TRUE(send_all(group.at(0, 1), std::as_bytes(std::span(&word, 1))).ok());
  transport::Endpoint& reader = group.at(1, 0);
  if (reader.arm(false)) {  // arm() may return true only if the descriptor signals later bytes
    pollfd entry{reader.fd(), POLLIN, 0};
    EXPECT_EQ(::poll(&entry, 1, 10'000), 1);
  }
  reader.disarm();
  const int fd = reader.fd();
  std::uint32_t got = 0;
  ASSERT_TRUE(receive_all(reader, std::as_writable_bytes(std::span(&got, 1))).ok());
  EXPECT_EQ(got, word);
  EXPECT_EQ(reader.fd(), fd);
  EXPECT_EQ(sleep_on(reader, false, milliseconds(30)).code(), Code::timeout) << "woken for nothing";
}

// Two ranks sleep at every step: a lost wake-up hangs the test.
TEST_P(Endpoints, NoWakeUpIsLost) {
  CONNECT(group, 2);
  constexpr int kRounds = 4000;
  const auto run = [&](int rank) {
    transport::Endpoint& endpoint = group.at(rank, 1 - rank);
    std::mt19937 random(rank);
    for (int round = 0; round < kRounds; ++round) {
      std::uint32_t word = round;
      for (int turn = 0; turn < 2; ++turn) {
        if (turn == rank) {
          const Status sent = send_all(endpoint, std::as_bytes(std::span(&word, 1)));
          ASSERT_TRUE(sent.ok()) << round << ": " << sent.message();
        } else {
          std::uint32_t got = 0;
          const Status status = receive_all(endpoint, std::as_writable_bytes(std::span(&got, 1)));
          ASSERT_TRUE(status.ok()) << round << ": " << status.message();
          ASSERT_EQ(got, word);
        }
        if (random() % 64 == 0) std::this_thread::yield();
      }
    }
  };
  std::thread other([&] { run(1); });
  run(0);
  other.join();
}

// Both ranks sleep at every step and wait for room and bytes at the same time.
TEST_P(Endpoints, NoWakeUpIsLostWhenFull) {
  CONNECT(group, 2);
  constexpr std::size_t kBytes = 24 << 20;
  const auto run = [&](int rank) {
    transport::Endpoint& endpoint = group.at(rank, 1 - rank);
    std::vector<std::byte> out(100'000), in(70'000);
    std::mt19937 random(rank);
    std::size_t sent = 0, received = 0;
    while (sent < kBytes || received < kBytes) {
      const iovec part{out.data(), std::min(kBytes - sent, out.size())};
      const auto wrote = endpoint.write({&part, 1});
      const auto got =
          endpoint.read(std::span(in).first(std::min(kBytes - received, random() % in.size() + 1)));
      ASSERT_TRUE(wrote.ok() && got.ok());
      sent += wrote.value();
      received += got.value();
      if (wrote.value() + got.value() == 0) {
        const Status slept = sleep_on(endpoint, sent < kBytes);
        ASSERT_TRUE(slept.ok()) << slept.message() << " at " << sent << " and " << received;
      }
    }
  };
  std::thread other([&] { run(1); });
  run(0);
  other.join();
}

TEST_P(Endpoints, WhatIsExpectedDelaysNoMoreThanItsOwnBytes) {
  CONNECT(group, 2);
  transport::Endpoint& writer = group.at(0, 1);
  transport::Endpoint& reader = group.at(1, 0);
  const auto send = [&](std::span<const std::byte> bytes) { ASSERT_TRUE(send_all(writer, bytes).ok()); };
  const auto data = pattern(20'000, 3);
  std::vector<std::byte> in(data.size());
  for (int round = 0; round < 3; ++round) {
    reader.expect(data.size());
    send(std::span(data).first(100));
    send(std::span(data).subspan(100));
    ASSERT_TRUE(sleep_on(reader, false).ok()) << "all of it is there";
    ASSERT_TRUE(receive_all(reader, in).ok());
    EXPECT_TRUE(in == data);
    send(std::span(data).first(8));  // fewer bytes than the last time, without expect()
    reader.expect(0);
    ASSERT_TRUE(sleep_on(reader, false).ok()) << "every byte counts";
    ASSERT_TRUE(receive_all(reader, std::span(in).first(8)).ok());
  }
}

TEST_P(Endpoints, AClosedPeerIsLostAfterItsLastByte) {
  CONNECT(group, 2);
  const auto data = pattern(10'000, 5);
  ASSERT_TRUE(send_all(group.at(1, 0), data).ok());
  group.endpoints[1].clear();
  transport::Endpoint& left = group.at(0, 1);
  std::vector<std::byte> in(data.size());
  ASSERT_TRUE(receive_all(left, in).ok());
  EXPECT_TRUE(in == data);
  EXPECT_EQ(error_of_read(left).code(), Code::peer_lost);
  EXPECT_EQ(error_of_write(left).code(), Code::peer_lost);
  EXPECT_EQ(error_of_read(left).code(), Code::peer_lost);
  pollfd entry{left.fd(), POLLIN, 0};
  EXPECT_EQ(::poll(&entry, 1, 10'000), 1);
  EXPECT_NE(entry.revents & (POLLIN | POLLHUP), 0);
}

TEST_P(Endpoints, TheEndIsHeardBehindAReadThatTookAllThereWas) {
  CONNECT(group, 2);
  const auto data = pattern(1000, 5);
  ASSERT_TRUE(send_all(group.at(1, 0), data).ok());
  group.endpoints[1].clear();
  transport::Endpoint& left = group.at(0, 1);
  std::vector<std::byte> in(4 * data.size());
  std::size_t got = 0;
  Status status;
  for (int tries = 0; status.ok() && tries < 100; ++tries) {
    auto read = left.read(std::span(in).subspan(got));
    status = read.status();
    if (read.ok()) got += *read;
    if (read.ok() && *read == 0) status = sleep_on(left, false);
  }
  EXPECT_EQ(status.code(), Code::peer_lost) << status.message();
  ASSERT_EQ(got, data.size());
  EXPECT_TRUE(std::equal(data.begin(), data.end(), in.begin()));
}

TEST_P(Endpoints, LastWordsAreHeard) {
  CONNECT(group, 2);
  const auto words = pattern(2000, 6);
  const std::vector<std::byte> flood(8 << 20);
  const iovec part{const_cast<std::byte*>(flood.data()), flood.size()};
  ASSERT_TRUE(group.at(0, 1).write({&part, 1}).ok());  // rank 1 does not read them
  ASSERT_TRUE(send_all(group.at(1, 0), words).ok());
  group.endpoints[1].clear();
  transport::Endpoint& left = group.at(0, 1);
  EXPECT_EQ(error_of_write(left).code(), Code::peer_lost);
  std::vector<std::byte> in(words.size());
  const Status status = receive_all(left, in);
  EXPECT_TRUE(status.ok()) << status.message();
  EXPECT_TRUE(in == words);
  EXPECT_EQ(error_of_read(left).code(), Code::peer_lost);
}

TEST_P(Endpoints, AClosedPeerWakesTheSleepers) {
  for (const bool writing : {false, true}) {
    CONNECT(group, 2);
    group.at(0, 1).expect(1 << 20);  // an announced message that does not come
    Status error;
    std::thread event_set(
        [&] { error = writing ? error_of_write(group.at(0, 1)) : error_of_read(group.at(0, 1)); });
    std::this_thread::sleep_for(milliseconds(50));
    const auto before = Clock::now();
    group.endpoints[1].clear();
    event_set.join();
    EXPECT_EQ(error.code(), Code::peer_lost) << writing;
    EXPECT_LT(Clock::now() - before, seconds(1));
  }
}

TEST_P(Endpoints, EndpointsOutliveTheirTransport) {
  CONNECT(group, 3);
  group.transports.clear();
  const auto data = pattern(1'000'000, 6);
  std::thread sender([&] { EXPECT_TRUE(send_all(group.at(2, 0), data).ok()); });
  std::vector<std::byte> in(data.size());
  EXPECT_TRUE(receive_all(group.at(0, 2), in).ok());
  sender.join();
  EXPECT_TRUE(in == data);
}

TEST_P(Endpoints, WhoDoesNotComeIsNamed) {
  const Group group = connect_group(GetParam(), 4, {.absent = {1, 3}, .timeout = milliseconds(400)});
  for (const int rank : {0, 2}) {
    EXPECT_EQ(group.errors[rank].code(), Code::rendezvous);
    const std::string& message = group.errors[rank].message();
    EXPECT_NE(message.find("rank 1"), std::string::npos) << message;
    EXPECT_NE(message.find("rank 3"), std::string::npos) << message;
    EXPECT_EQ(message.find("rank " + std::to_string(2 - rank) + " ("), std::string::npos) << message;
    EXPECT_EQ(group.errors[rank].context().peer, 1);
  }
}

TEST_P(Endpoints, NobodyWaitsForWhoIsGone) {
  const auto begin = Clock::now();
  const Group group = connect_group(GetParam(), 3, {.absent = {1}, .absent_are_gone = true});
  EXPECT_LT(Clock::now() - begin, seconds(10));  // far less than the timeout of 20 s
  for (const int rank : {0, 2}) {
    EXPECT_EQ(group.errors[rank].code(), Code::rendezvous);
    EXPECT_EQ(group.errors[rank].context().peer, 1);
    const std::string& message = group.errors[rank].message();
    EXPECT_NE(message.find("rank 1 (it is gone)"), std::string::npos) << message;
  }
}

TEST_P(Endpoints, AnotherKeyIsRefused) {
  const Group group =
      connect_group(GetParam(), 3, {.keys = {"right", "right", "wrong"}, .timeout = milliseconds(600)});
  for (const int rank : {0, 1}) {
    EXPECT_EQ(group.errors[rank].code(), Code::rendezvous);
    EXPECT_NE(group.errors[rank].message().find("rank 2"), std::string::npos) << group.errors[rank].message();
  }
  EXPECT_EQ(group.errors[2].code(), Code::rendezvous);
}

TEST_P(Endpoints, GroupsSideBySideDoNotMeet) {
  Group groups[2];
  std::thread other([&] { groups[1] = connect_group(GetParam(), 3, {.job = "side-1"}); });
  groups[0] = connect_group(GetParam(), 3, {.job = "side-0"});
  other.join();
  for (const std::uint32_t g : {0u, 1u}) {
    ASSERT_TRUE(groups[g].ok()) << first_error(groups[g]);
    ASSERT_TRUE(send_all(groups[g].at(0, 2), std::as_bytes(std::span(&g, 1))).ok());
  }
  for (const std::uint32_t g : {0u, 1u}) {
    std::uint32_t got = 9;
    ASSERT_TRUE(receive_all(groups[g].at(2, 0), std::as_writable_bytes(std::span(&got, 1))).ok());
    EXPECT_EQ(got, g);
  }
}

TEST_P(Endpoints, OneRankNeedsNobody) {
  auto made = make_transport(GetParam(), new_job(), "k");
  ASSERT_TRUE(made.ok());
  auto connected = transport::connect_all(**made, 0, {}, Deadline::after(seconds(5)));
  ASSERT_TRUE(connected.ok());
  EXPECT_TRUE(connected->empty());
}

/// Reads the memory of `range` as a Link does.
Status pull(transport::Endpoint& endpoint, const transport::RemoteRange& range, std::span<std::byte> into) {
  auto mapped = endpoint.map(range, into.size());
  if (!mapped.ok()) return mapped.status();
  if (*mapped == nullptr) return endpoint.fetch(range, into);
  std::memcpy(into.data(), *mapped, into.size());
  return Status();
}

void refuses_to_pull(Group& group) {
  std::byte memory[64] = {};
  EXPECT_FALSE(group.at(0, 1).expose(memory, sizeof memory).has_value());
  EXPECT_FALSE(
      pull(group.at(1, 0), transport::RemoteRange{0, reinterpret_cast<std::uintptr_t>(memory)}, memory).ok());
}

TEST_P(Endpoints, PrivateMemoryIsPulledIntact) {
  CONNECT(group, 2);
  if (!group.at(0, 1).can_pull()) return refuses_to_pull(group);
  const auto data = pattern(3'000'001, 8);
  const auto range = group.at(0, 1).expose(data.data(), data.size());
  if (!range) GTEST_SKIP() << "private memory cannot be read here";
  std::vector<std::byte> in(data.size());
  const Status status = pull(group.at(1, 0), *range, in);
  EXPECT_TRUE(status.ok()) << status.message();
  EXPECT_TRUE(in == data);
  EXPECT_FALSE(group.at(1, 0).revoked());
  group.at(0, 1).revoke();
  EXPECT_TRUE(group.at(1, 0).revoked());
  EXPECT_FALSE(group.at(0, 1).revoked()) << "revoked one way only";
  EXPECT_TRUE(pull(group.at(1, 0), *range, in).ok()) << "the reason comes through the stream";
}

TEST_P(Endpoints, SharedMemoryIsPulledIntact) {
  CONNECT(group, 3);
  if (!group.at(0, 1).can_pull()) return refuses_to_pull(group);
  const auto data = pattern(2'000'003, 9);
  SharedMemory memory(data.size() + 4096);
  std::memcpy(memory.data() + 4000, data.data(), data.size());
  for (const int peer : {1, 2, 1}) {
    const auto range = group.at(0, peer).expose(memory.data() + 4000, data.size());
    ASSERT_TRUE(range.has_value());
    std::vector<std::byte> in(data.size());
    const Status status = pull(group.at(peer, 0), *range, in);
    EXPECT_TRUE(status.ok()) << status.message();
    EXPECT_TRUE(in == data);
  }
}

TEST_P(Endpoints, RangesThatCannotBeAreRefused) {
  CONNECT(group, 2);
  if (!group.at(0, 1).can_pull()) return refuses_to_pull(group);
  std::vector<std::byte> in(4096);
  for (const transport::RemoteRange& range :
       {transport::RemoteRange{0, 0}, transport::RemoteRange{0, ~0ull - 100},
        transport::RemoteRange{12345, 0}, transport::RemoteRange{~0ull, 0},
        transport::RemoteRange{1, ~0ull - 4}}) {
    Group fresh = connect_group(GetParam(), 2);
    ASSERT_TRUE(fresh.ok());
    EXPECT_FALSE(pull(fresh.at(1, 0), range, in).ok()) << range.region << "+" << range.offset;
  }
}

TEST_P(Endpoints, PullingFromALostPeerIsAnError) {
  CONNECT(group, 2);
  if (!group.at(0, 1).can_pull()) return refuses_to_pull(group);
  const auto data = pattern(10'000, 8);
  const auto range = group.at(0, 1).expose(data.data(), data.size());
  if (!range) GTEST_SKIP() << "private memory cannot be read here";
  group.endpoints[0].clear();
  std::vector<std::byte> in(data.size());
  EXPECT_EQ(pull(group.at(1, 0), *range, in).code(), Code::peer_lost);
}

#undef CONNECT

INSTANTIATE_TEST_SUITE_P(All, Endpoints, ::testing::ValuesIn(variants_that_reach(transport::Reach::process)),
                         name_of_variant);
INSTANTIATE_TEST_SUITE_P(tcp, Endpoints,
                         ::testing::Values(Variant{"ipv6", "tcp", "::1"}, Variant{"interface", "tcp", "lo"},
                                           Variant{"chosen", "tcp", ""},
                                           Variant{"encrypted", "tcp", "127.0.0.1", true}),
                         name_of_variant);

}  // namespace
}  // namespace kolo::testing
