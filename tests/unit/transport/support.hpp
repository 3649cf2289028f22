// Shared by the transport tests: groups of ranks as threads, and blocking sends and receives.
#pragma once

#include <gtest/gtest.h>
#include <poll.h>
#include <unistd.h>

#include <chrono>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "net/tls.hpp"
#include "support/transports.hpp"
#include "support/watchdog.hpp"
#include "transport/transport.hpp"

namespace kolo::testing {

using std::chrono::milliseconds;
using std::chrono::seconds;

using test::Watchdog;

/// A transport and its settings, with which the tests run.
struct Variant {
  const char* name;
  std::string_view transport;
  const char* interface;
  bool encrypted = false;
};
inline constexpr Variant kShm{"shm", "shm", ""};

/// Every transport that reaches at least so far, each between ranks of this host.
inline std::vector<Variant> variants_that_reach(transport::Reach reach) {
  std::vector<Variant> variants;
  for (const char* name : test::transports_that_reach(reach)) {
    const bool is_network = transport::find_transport(name)->reach == transport::Reach::network;
    variants.push_back({name, name, is_network ? "127.0.0.1" : ""});
  }
  return variants;
}
inline std::string name_of_variant(const ::testing::TestParamInfo<Variant>& info) {
  return info.param.name;
}

inline void PrintTo(const Variant& variant, std::ostream* out) {
  *out << variant.name;
}

/// Of each rank's segment, where no test asks for another size.
inline constexpr std::size_t kSegmentBytes = 4096;

inline Result<std::unique_ptr<transport::Transport>> make_transport(
    const Variant& variant, const std::string& job, const std::string& key,
    std::size_t segment_bytes = kSegmentBytes) {
  transport::TransportOptions options{job, key, variant.interface};
  options.segment_bytes = segment_bytes;
  if (variant.encrypted) options.tls = net::Tls::with_key().value_or_throw();
  return transport::find_transport(variant.transport)->make(options);
}

inline std::string new_job() {
  static int number = 0;
  return "job-" + std::to_string(::getpid()) + "-" + std::to_string(++number);
}

/// Ranks of this process, each connected with every other.
struct Group {
  using Endpoints = std::vector<std::unique_ptr<transport::Endpoint>>;

  std::vector<std::unique_ptr<transport::Transport>> transports;
  std::vector<Endpoints> endpoints;  // [rank][peer], null at [rank][rank]
  std::vector<Status> errors;        // per rank
  transport::Endpoint& at(int rank, int peer) { return *endpoints[rank][peer]; }
  bool ok() const {
    for (const Status& error : errors) {
      if (!error.ok()) return false;
    }
    return true;
  }
};

struct GroupOptions {
  std::string job = new_job();
  std::vector<std::string> keys = {};           ///< key of each rank; empty: the same key for all
  std::vector<std::size_t> segment_bytes = {};  ///< of each rank; empty: kSegmentBytes for all
  std::vector<int> absent = {};                 ///< ranks that listen but do not connect
  bool absent_are_gone = false;                 ///< after 50 ms, all other ranks learn that these have ended
  int late = -1;                                ///< a rank that connects 300 ms after the others
  milliseconds timeout = seconds(20);
};

inline Group connect_group(const Variant& variant, int size, const GroupOptions& options = {}) {
  Group group;
  group.errors.resize(size);
  group.endpoints.resize(size);
  for (int rank = 0; rank < size; ++rank) {
    auto made = make_transport(variant, options.job, options.keys.empty() ? "secret" : options.keys[rank],
                               options.segment_bytes.empty() ? kSegmentBytes : options.segment_bytes[rank]);
    if (!made.ok()) {
      group.errors[rank] = made.status();
      return group;
    }
    group.transports.push_back(std::move(made).value());
  }
  const auto is_absent = [&](int rank) {
    return std::ranges::find(options.absent, rank) != options.absent.end();
  };
  const Deadline until_told = Deadline::after(milliseconds(50));
  transport::IsGone is_gone;
  if (options.absent_are_gone) is_gone = [&](int rank) { return is_absent(rank) && until_told.passed(); };
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank) {
    if (is_absent(rank)) continue;
    threads.emplace_back([&, rank] {
      if (rank == options.late) std::this_thread::sleep_for(milliseconds(300));
      std::vector<transport::TransportPeer> peers;
      for (int peer = size - 1; peer >= 0; --peer) {  // descending, to test that the order is kept
        if (peer != rank) peers.push_back({peer, group.transports[peer]->address()});
      }
      auto connected = transport::connect_all(*group.transports[rank], rank, peers,
                                              Deadline::after(options.timeout), is_gone);
      if (!connected.ok()) {
        group.errors[rank] = connected.status();
        return;
      }
      group.endpoints[rank].resize(size);
      for (std::size_t i = 0; i < peers.size(); ++i) {
        group.endpoints[rank][peers[i].rank] = std::move((*connected)[i]);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  return group;
}

/// Sleeps as the engine does; Code::timeout without a wake-up.
inline Status sleep_on(transport::Endpoint& endpoint, bool for_room, milliseconds limit = seconds(20)) {
  Status status;
  if (endpoint.arm(for_room)) {
    const short events = POLLIN | (for_room && !endpoint.must_be_armed() ? POLLOUT : 0);
    pollfd entry{endpoint.fd(), events, 0};
    const int ready = ::poll(&entry, 1, static_cast<int>(limit.count()));
    if (ready == 0) status = Status(Code::timeout, "nothing woke the event_set");
    if (ready > 0 && (entry.revents & ~POLLOUT) != 0) status = endpoint.drain();
  }
  endpoint.disarm();
  return status;
}

inline Status send_all(transport::Endpoint& endpoint, std::span<const std::byte> data) {
  while (!data.empty()) {
    const iovec part{const_cast<std::byte*>(data.data()), data.size()};
    auto wrote = endpoint.write({&part, 1});
    if (!wrote.ok()) return wrote.status();
    data = data.subspan(*wrote);
    if (*wrote == 0) {
      if (Status slept = sleep_on(endpoint, true); !slept.ok()) return slept;
    }
  }
  return Status();
}

inline Status receive_all(transport::Endpoint& endpoint, std::span<std::byte> into) {
  while (!into.empty()) {
    auto got = endpoint.read(into);
    if (!got.ok()) return got.status();
    into = into.subspan(*got);
    if (*got == 0) {
      if (Status slept = sleep_on(endpoint, false); !slept.ok()) return slept;
    }
  }
  return Status();
}

/// Reads or writes until an error comes, for at most `limit`.
inline Status error_of_read(transport::Endpoint& endpoint, milliseconds limit = seconds(10)) {
  std::byte buffer[4096];
  for (const auto deadline = Deadline::after(limit); !deadline.passed();) {
    auto got = endpoint.read(buffer);
    if (!got.ok()) return got.status();
    if (*got == 0) {
      if (Status slept = sleep_on(endpoint, false, milliseconds(100)); slept.code() == Code::peer_lost)
        return slept;
    }
  }
  return Status();
}

inline Status error_of_write(transport::Endpoint& endpoint, milliseconds limit = seconds(10)) {
  std::vector<std::byte> bytes(4096);
  for (const auto deadline = Deadline::after(limit); !deadline.passed();) {
    const iovec part{bytes.data(), bytes.size()};
    auto wrote = endpoint.write({&part, 1});
    if (!wrote.ok()) return wrote.status();
    if (*wrote == 0) {
      if (Status slept = sleep_on(endpoint, true, milliseconds(100)); slept.code() == Code::peer_lost)
        return slept;
    }
  }
  return Status();
}

/// Bytes that depend on their position, so that a shift or a loss is detected.
inline std::vector<std::byte> pattern(std::size_t bytes, std::uint32_t seed) {
  std::vector<std::uint64_t> words(bytes / 8 + 1);
  std::mt19937_64 random(seed);
  for (std::uint64_t& word : words) word = random();
  const auto raw = std::as_bytes(std::span(words)).first(bytes);
  return {raw.begin(), raw.end()};
}

}  // namespace kolo::testing
