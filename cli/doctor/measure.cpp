#include "doctor/examination.hpp"

#include <algorithm>
#include <chrono>
#include <utility>
#include <vector>

#include "kolo/communicator.hpp"
#include "tune/bandwidth.hpp"

namespace kolo::doctor {
namespace {

constexpr auto kMeasurePatience = std::chrono::seconds(10);
constexpr int kPings = 100;
/// The best burst counts, because a packet that is lost early in a burst says little about the link.
constexpr int kBursts = 2;

double now() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

/// The fastest answer gives the best estimate of the peer's clock (Cristian 1989): the peer reads its clock
/// after half of the round trip.
void ping(Communicator& communicator, Pair& pair) {
  std::vector<std::pair<double, double>>
      answers;  // round trip in seconds, and how far the peer's clock is ahead
  for (int i = 0; i < kPings; ++i) {
    double theirs = 0;
    const auto begin = std::chrono::steady_clock::now();
    const double sent = now();
    communicator.send({&theirs, 1, DType::float64}, 1);
    communicator.recv({&theirs, 1, DType::float64}, 1);
    const double took = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    answers.emplace_back(took, theirs - (sent + took / 2));
  }
  std::sort(answers.begin(), answers.end());
  pair.clock_s = answers[0].second;
  pair.latency_us = answers[answers.size() / 2].first / 2 * 1e6;
}

void answer_pings(Communicator& communicator) {
  for (int i = 0; i < kPings; ++i) {
    double time = 0;
    communicator.recv({&time, 1, DType::float64}, 0);
    time = now();
    communicator.send({&time, 1, DType::float64}, 0);
  }
}

}  // namespace

Pair measure_pair(std::shared_ptr<Store> store, int from, int to, int me) {
  Pair pair;
  pair.from = from;
  pair.to = to;
  try {
    Options options;
    options.timeout = kMeasurePatience;
    Communicator communicator = Communicator::create(std::move(store), me == from ? 0 : 1, 2, options);
    if (me == from) {
      pair.transport = communicator.transport_to(1);
      ping(communicator, pair);
      for (int burst = 0; burst < kBursts; ++burst) {
        pair.there = std::max(pair.there, tune::bandwidth_to(communicator, 1));
        tune::answer_bandwidth(communicator, 1);
        double back = 0;
        communicator.recv({&back, 1, DType::float64}, 1);
        pair.back = std::max(pair.back, back);
      }
    } else {
      answer_pings(communicator);
      for (int burst = 0; burst < kBursts; ++burst) {
        tune::answer_bandwidth(communicator, 0);
        double bandwidth = tune::bandwidth_to(communicator, 0);
        communicator.send({&bandwidth, 1, DType::float64}, 0);
      }
    }
  } catch (const Error& error) {
    pair.error = error.what();
  }
  return pair;
}

}  // namespace kolo::doctor
