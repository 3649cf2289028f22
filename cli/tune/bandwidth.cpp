#include "tune/bandwidth.hpp"
#include "selection/topology.hpp"

#include <algorithm>
#include <chrono>
#include <limits>
#include <vector>

#include "base/deadline.hpp"

namespace kolo::tune {
namespace {

using Clock = std::chrono::steady_clock;

constexpr double kLongEnough = 0.05;  // seconds: longer than the bursts that traffic shapers let through
constexpr std::uint64_t kFirst = 256 << 10;
constexpr std::uint64_t kMost = 256 << 20;

/// Seconds until the receiver's answer to all of the data has arrived.
double send_and_hear(Communicator& communicator, std::vector<std::byte>& data, int peer) {
  std::byte word{};
  const auto begin = Clock::now();
  communicator.send({data.data(), data.size(), DType::uint8}, peer);
  communicator.recv({&word, 1, DType::uint8}, peer);
  return to_seconds(Clock::now() - begin);
}

}  // namespace

double bandwidth_to(Communicator& communicator, int peer) {
  std::vector<std::byte> nothing;
  double there_and_back = std::numeric_limits<double>::infinity();
  for (int i = 0; i < kRoundTrips; ++i)
    there_and_back = std::min(there_and_back, send_and_hear(communicator, nothing, peer));
  for (std::uint64_t bytes = kFirst;; bytes *= 4) {
    std::vector<std::byte> data(bytes);
    const double seconds = send_and_hear(communicator, data, peer) - there_and_back;
    std::uint64_t again = seconds < kLongEnough && bytes < kMost ? 1 : 0;
    communicator.send({&again, 1, DType::uint64}, peer);
    if (again == 0) return seconds > 0 ? static_cast<double>(bytes) / seconds : 0;
  }
}

void answer_bandwidth(Communicator& communicator, int peer) {
  std::byte word{};
  std::vector<std::byte> data;
  const auto once = [&] {
    communicator.recv({data.data(), data.size(), DType::uint8}, peer);
    communicator.send({&word, 1, DType::uint8}, peer);
  };
  for (int i = 0; i < kRoundTrips; ++i) once();
  std::uint64_t again = 1;
  for (std::uint64_t bytes = kFirst; again == 1; bytes *= 4) {
    data.resize(bytes);
    once();
    communicator.recv({&again, 1, DType::uint64}, peer);
  }
}

Bandwidths measure_bandwidths(Communicator& communicator, void (*progress)(int done, int of)) {
  Bandwidths result;
  const selection::Topology& topology = situation_of(communicator);
  std::vector<int> leaders;
  for (int rank = 0; rank < static_cast<int>(topology.hosts.size()); ++rank) {
    if (topology.hosts[static_cast<std::size_t>(rank)] == static_cast<int>(leaders.size()))
      leaders.push_back(rank);
  }
  const int pairs =
      static_cast<int>(leaders.size() * (leaders.size() - std::min<std::size_t>(leaders.size(), 1)));
  int done = 0;
  for (std::size_t from = 0; from < leaders.size(); ++from) {
    for (std::size_t to = 0; to < leaders.size(); ++to) {
      if (from == to) continue;
      if (communicator.rank() == 0) progress(done++, pairs);
      double bandwidth = 0;
      if (communicator.rank() == leaders[from]) bandwidth = bandwidth_to(communicator, leaders[to]);
      if (communicator.rank() == leaders[to]) answer_bandwidth(communicator, leaders[from]);
      communicator.broadcast({&bandwidth, 1, DType::float64}, leaders[from]);
      result[{topology.host_names[from], topology.host_names[to]}] = bandwidth;
    }
  }
  return result;
}

}  // namespace kolo::tune
