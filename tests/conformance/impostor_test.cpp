// A peer that authenticates with the job's key and then breaks the protocol: its link fails, and the rank at
// the other end reports an error.
#include <gtest/gtest.h>
#include <sys/uio.h>

#include <cstring>
#include <random>
#include <sstream>
#include <thread>

#include "comm/address_exchange.hpp"
#include "comm/wireup.hpp"
#include "support/cluster.hpp"
#include "support/transports.hpp"
#include "support/watchdog.hpp"
#include "transport/frame.hpp"
#include "transport/host_mark.hpp"

namespace kolo::test {
namespace {

using namespace std::chrono_literals;
using Bytes = std::vector<std::byte>;

/// Rank 1 of two, up to the connection to rank 0.
class Impostor {
 public:
  Impostor(const std::shared_ptr<Store>& store, const std::string& transport)
      : address_exchange_(store, 1, 2, 20s) {
    const comm::Terms terms{job_, {}, {.transports = transport}, mark_.name()};
    offer_ = comm::make_offer(1, terms);
    std::istringstream lines(address_exchange_.offers(offer_.text)[0]);
    std::string line;
    while (std::getline(lines, line) && !line.starts_with(transport + ' ')) {
    }
    const transport::TransportPeer zero{0, line.substr(transport.size() + 1)};
    transport::Transport& own = *offer_.transports[transport];
    link_ =
        std::move(transport::connect_all(own, 1, {&zero, 1}, Deadline::after(20s)).value_or_throw().front());
    make_prefix_store("round 1", store)
        ->set("told/1", "");  // otherwise rank 0 waits for a while after its failure
  }

  void say(const Bytes& bytes) {
    iovec part{const_cast<std::byte*>(bytes.data()), bytes.size()};
    for (const auto deadline = Deadline::after(5s); part.iov_len > 0 && !deadline.passed();) {
      const auto wrote = link_->write({&part, 1});
      if (!wrote.ok()) break;  // rank 0 has closed the link
      part.iov_base = static_cast<std::byte*>(part.iov_base) + *wrote;
      part.iov_len -= *wrote;
    }
  }

 private:
  comm::AddressExchange address_exchange_;
  const std::string job_ = address_exchange_.job();
  const transport::HostMark mark_{job_, 1, 2};
  comm::Offer offer_;
  std::unique_ptr<transport::Endpoint> link_;
};

template <typename T>
void append(Bytes& bytes, const T& value) {
  const auto raw = std::as_bytes(std::span(&value, 1));
  bytes.insert(bytes.end(), raw.begin(), raw.end());
}

/// The message of the first barrier, modified by `change`.
template <typename Change>
Bytes frame(Change change) {
  transport::FrameHeader header;
  header.type = transport::FrameType::eager;
  header.tag = {0, 0, 1};
  change(header);
  Bytes bytes;
  append(bytes, header);
  return bytes;
}

/// Frames in which each field is random or valid.
Bytes random_frames(unsigned seed) {
  std::mt19937_64 random(seed);
  Bytes bytes;
  for (int i = 0; i < 20; ++i) {
    append(bytes, [&] {
      transport::FrameHeader header;
      header.type = static_cast<transport::FrameType>(1 + random() % 6);
      header.acknowledged = static_cast<std::uint8_t>(random());
      header.segments = static_cast<std::uint32_t>(random() % 3);
      header.tag = {static_cast<std::uint32_t>(random() % 2), static_cast<std::uint32_t>(random() % 6),
                    random() % 4};
      if (random() % 4 == 0) header.tag.sequence |= std::uint64_t{1} << 63;
      header.bytes = random() % 2 == 0 ? random() % 64 : random() >> random() % 64;
      std::uint64_t raw[sizeof(transport::Signature) / 8];
      for (std::uint64_t& word : raw) word = random() >> random() % 64;
      std::memcpy(static_cast<void*>(&header.signature), raw, sizeof raw);
      header.range = {static_cast<decltype(header.range.region)>(random() % 4), random() >> random() % 64};
      return header;
    }());
    for (std::uint64_t left = random() % 64; left > 0; --left)
      append(bytes, static_cast<std::uint8_t>(random()));
  }
  return bytes;
}

/// The error of rank 0 if its peer sends these bytes and closes.
std::string heard(const std::string& transport, const Bytes& said) {
  const Watchdog watchdog(60s);
  const auto store = make_memory_store();
  std::string error = "none";
  std::thread zero([&] {
    try {
      Communicator::create(store, 0, 2, {.timeout = 20s, .transports = transport}).barrier();
    } catch (const Error& problem) {
      error = problem.what();
    }
  });
  Impostor(store, transport).say(said);
  zero.join();
  return error;
}

class Impostors : public ::testing::TestWithParam<const char*> {};

TEST_P(Impostors, AreNamedAndHarmless) {
  const std::pair<const char*, Bytes> cases[] = {
      {"lost rank 1", {}},
      {"lost rank 1: received nonsense", Bytes(200, std::byte{'x'})},
      {"lost rank 1: received nonsense", frame([](transport::FrameHeader& h) { h.bytes = ~0ull; })},
      {"lost rank 1: received nonsense",
       frame([](transport::FrameHeader& h) { h.type = transport::FrameType::cts; })},
      {"lost rank 1: received nonsense",
       frame([](transport::FrameHeader& h) { h.type = transport::FrameType::ack; })},
      {"lost rank 1: received nonsense", frame([](transport::FrameHeader& h) {
         h.type = transport::FrameType::eager;
         h.tag.message = 7;
         h.bytes = ~0ull;
       })},
      {"rank 1 called unknown",
       frame([](transport::FrameHeader& h) { h.signature = {255, 255, 255, 255, -1, ~0ull, ~0ull}; })},
  };
  for (const auto& [expected, said] : cases) {
    const std::string error = heard(GetParam(), said);
    EXPECT_NE(error.find(expected), std::string::npos) << error;
  }
}

TEST_P(Impostors, SayWhatTheyLike) {
  for (unsigned seed = 0; seed < 20; ++seed)
    EXPECT_NE(heard(GetParam(), random_frames(seed)), "none") << seed;
}

INSTANTIATE_TEST_SUITE_P(Conformance, Impostors, kBetweenProcesses, kTransportNames);

}  // namespace
}  // namespace kolo::test
