// bench_transport: cost of each transport's endpoints between two threads, as a round trip of a small
// message, the flow of a large one, and a pull. A plain copy is the machine's limit.
#include <benchmark/benchmark.h>
#include <poll.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "transport/transport.hpp"

namespace kolo {
namespace {

/// Two connected endpoints of this process.
struct Pair {
  std::unique_ptr<transport::Endpoint> ends[2];

  explicit Pair(std::string_view name) {
    const transport::TransportFactory& factory = *transport::find_transport(name);
    const transport::TransportOptions options{"bench", "key",
                                              factory.reach == transport::Reach::network ? "127.0.0.1" : ""};
    auto low = factory.make(options).value_or_throw(), high = factory.make(options).value_or_throw();
    const transport::TransportPeer peers[2] = {{1, high->address()}, {0, low->address()}};
    const auto connect = [&](transport::Transport& transport, int rank) {
      const auto deadline = Deadline::after(std::chrono::seconds(10));
      auto connected = transport::connect_all(transport, rank, {&peers[rank], 1}, deadline).value_or_throw();
      ends[rank] = std::move(connected.front());
    };
    std::thread other([&] { connect(*high, 1); });
    connect(*low, 0);
    other.join();
  }
};

void sleep_on(transport::Endpoint& endpoint, bool for_room) {
  if (endpoint.arm(for_room)) {
    const short events = POLLIN | (for_room && !endpoint.must_be_armed() ? POLLOUT : 0);
    pollfd entry{endpoint.fd(), events, 0};
    if (::poll(&entry, 1, 10'000) > 0 && (entry.revents & ~POLLOUT) != 0) (void)endpoint.drain();
  }
  endpoint.disarm();
}

/// Returns false after the peer has closed.
bool send(transport::Endpoint& endpoint, const std::vector<std::byte>& data, bool spin) {
  for (std::size_t sent = 0; sent < data.size();) {
    const iovec part{const_cast<std::byte*>(data.data() + sent), data.size() - sent};
    const auto wrote = endpoint.write({&part, 1});
    if (!wrote.ok()) return false;
    sent += *wrote;
    if (*wrote == 0 && !spin) sleep_on(endpoint, true);
  }
  return true;
}

bool receive(transport::Endpoint& endpoint, std::vector<std::byte>& data, bool spin) {
  for (std::size_t received = 0; received < data.size();) {
    const auto got = endpoint.read(std::span(data).subspan(received));
    if (!got.ok()) return false;
    received += *got;
    if (*got == 0 && !spin) sleep_on(endpoint, false);
  }
  return true;
}

/// Sends a message to the other thread, which answers with `reply` bytes, in a loop.
void exchange(benchmark::State& state, const char* transport, bool spin, std::size_t reply) {
  Pair pair(transport);
  const auto bytes = static_cast<std::size_t>(state.range(0));
  std::vector<std::byte> here(bytes), there(bytes), sent_back(reply), answer(reply);
  std::thread other([&] {
    while (receive(*pair.ends[1], there, spin) && send(*pair.ends[1], sent_back, spin)) {
    }
  });
  for (auto _ : state) {
    send(*pair.ends[0], here, spin);
    receive(*pair.ends[0], answer, spin);
  }
  pair.ends[0].reset();
  other.join();
}

void round_trip(benchmark::State& state, const char* transport, bool spin) {
  exchange(state, transport, spin, static_cast<std::size_t>(state.range(0)));
}

void flow(benchmark::State& state, const char* transport) {
  exchange(state, transport, false, 1);
  state.SetBytesProcessed(state.iterations() * state.range(0));
}

void pull(benchmark::State& state, const char* transport) {
  Pair pair(transport);
  std::vector<std::byte> here(static_cast<std::size_t>(state.range(0)), std::byte{1}), there(here.size());
  const auto range = pair.ends[0]->expose(here.data(), here.size());
  if (!range) return state.SkipWithError("private memory cannot be read here");
  for (auto _ : state) {
    if (!pair.ends[1]->fetch(*range, there).ok()) return state.SkipWithError("fetch");
  }
  state.SetBytesProcessed(state.iterations() * state.range(0));
}

void copy(benchmark::State& state) {
  std::vector<std::byte> from(static_cast<std::size_t>(state.range(0)), std::byte{1}), to(from.size());
  for (auto _ : state) {
    std::memcpy(to.data(), from.data(), from.size());
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() * state.range(0));
}

BENCHMARK_CAPTURE(round_trip, inproc_spin, "inproc", true)->Arg(8)->UseRealTime();
BENCHMARK_CAPTURE(round_trip, shm_spin, "shm", true)->Arg(8)->UseRealTime();
BENCHMARK_CAPTURE(round_trip, tcp_spin, "tcp", true)->Arg(8)->UseRealTime();
BENCHMARK_CAPTURE(round_trip, inproc_sleep, "inproc", false)->Arg(8)->UseRealTime();
BENCHMARK_CAPTURE(round_trip, shm_sleep, "shm", false)->Arg(8)->UseRealTime();
BENCHMARK_CAPTURE(round_trip, tcp_sleep, "tcp", false)->Arg(8)->UseRealTime();
BENCHMARK_CAPTURE(flow, inproc, "inproc")->Arg(64 << 10)->Arg(1 << 20)->Arg(16 << 20)->UseRealTime();
BENCHMARK_CAPTURE(flow, shm, "shm")->Arg(64 << 10)->Arg(1 << 20)->Arg(16 << 20)->UseRealTime();
BENCHMARK_CAPTURE(flow, tcp, "tcp")->Arg(64 << 10)->Arg(1 << 20)->Arg(16 << 20)->UseRealTime();
BENCHMARK_CAPTURE(pull, inproc, "inproc")->Arg(1 << 20)->Arg(16 << 20)->UseRealTime();
BENCHMARK_CAPTURE(pull, shm, "shm")->Arg(1 << 20)->Arg(16 << 20)->UseRealTime();
BENCHMARK(copy)->Arg(1 << 20)->Arg(16 << 20)->UseRealTime();

}  // namespace
}  // namespace kolo

BENCHMARK_MAIN();
