// The chooser: selects the algorithm that a call runs.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "algorithms/algorithm.hpp"
#include "base/status.hpp"
#include "selection/measured.hpp"
#include "selection/topology.hpp"

namespace kolo::selection {

/// An algorithm and the time it is expected to take.
struct ScoredAlgorithm {
  algorithms::ConfiguredAlgorithm configured;
  double seconds = 0;
  bool measured = false;          ///< taken from the table; else predicted by the model
  bool in_shared_memory = false;  ///< would run there, without messages
};

/// How the data of a call is cut, in bytes as they are sent.
struct Cuts {
  std::uint64_t block = 1;    ///< only the last block may be shorter; no part ends within one
  double segment = 1u << 19;  ///< the longest message
};

/// The algorithm that a call runs, and its expected cost.
struct Expectation {
  algorithms::ConfiguredAlgorithm configured;
  double seconds = 0;
  bool measured = false;          ///< as ScoredAlgorithm's
  bool in_shared_memory = false;  ///< as ScoredAlgorithm's
  std::uint64_t most_sent = 0;    ///< bytes, by the rank that sends most
};

/// One communicator's chooser. Thread-safe.
class Chooser {
 public:
  explicit Chooser(Topology topology) : situation_(std::move(topology)) {}

  /// The algorithm that the caller names, which must be known and fit; else `preferred`, the environment's,
  /// if it does; else the first of ranking(). A ring runs in the topology's order. `bytes`: of the whole data
  /// as it is sent, the same on every rank.
  Result<algorithms::ConfiguredAlgorithm> choose(const schedule::CallKey& key, std::uint64_t bytes,
                                                 std::string_view preferred = {});

  /// The choice of choose(), and the expected time of one such call. If the table has times of that
  /// algorithm, the time comes from there; beyond the largest measured size it grows in proportion to the
  /// bytes. Otherwise it is interpolated between the model's predictions for the two ends of the size class,
  /// because the model's own time falls where messages become long enough to be cut once more. Changes no
  /// choice.
  Result<Expectation> expect(const schedule::CallKey& key, std::uint64_t bytes, const Cuts& cuts,
                             std::string_view preferred = {});

  /// All candidates, the fastest first. Those with times in the table at sizes near `bytes` (Measured) come
  /// first, the rest in the order that the model predicts. Among several that the model finds equally fast,
  /// the first is one that spares slow hosts, or else the one with the fewest connections between hosts.
  /// Among several measured as equally fast but for noise, the first is the one that does best at the sizes
  /// around. Without `with_all_times`, algorithms that run in shared memory come before all that send
  /// messages and were not measured; times of messages are then left out, because playing the schedules takes
  /// long.
  std::vector<ScoredAlgorithm> ranking(const schedule::CallKey& key, std::uint64_t bytes,
                                       bool with_all_times = true) const;

  /// The algorithm as a call runs it: a ring in the topology's order, unless it has an order of its own.
  algorithms::ConfiguredAlgorithm in_ring_order(algorithms::ConfiguredAlgorithm configured) const;

  /// How these ranks run such a call without messages; null if they send messages.
  const schedule::SharedMemoryForm* form_of(const algorithms::Algorithm& algorithm,
                                            const schedule::CallKey& key) const;

  const Topology& topology() const { return situation_; }

 private:
  /// choose() before in_ring_order(), with the names that the table uses.
  Result<algorithms::ConfiguredAlgorithm> pick(const schedule::CallKey& key, std::uint64_t bytes,
                                               std::string_view preferred);
  /// Of the schedules that all ranks examine: of rank 0, with root 0.
  algorithms::ScheduleSpec common_spec(schedule::Collective collective) const {
    return {collective, 0, situation_.size, 0, {}, situation_.hosts};
  }
  /// The time of a candidate by the table.
  std::optional<double> timed(const algorithms::ConfiguredAlgorithm& candidate, const schedule::CallKey& key,
                              const Measured& measured) const;
  double interpolated(const algorithms::ConfiguredAlgorithm& candidate, const algorithms::ScheduleSpec& spec,
                      std::uint64_t bytes, const Cuts& cuts);
  double predicted(const algorithms::ConfiguredAlgorithm& candidate, algorithms::ScheduleSpec spec,
                   std::uint64_t bytes, const Cuts& cuts) const;
  double predicted(const schedule::SharedMemoryForm& form, int ranks, std::uint64_t bytes) const;
  double estimated(const algorithms::ConfiguredAlgorithm& candidate, const algorithms::ScheduleSpec& spec,
                   std::uint64_t bytes) const;
  double work_of_cores(const algorithms::ConfiguredAlgorithm& candidate, const algorithms::ScheduleSpec& spec,
                       std::uint64_t bytes) const;

  const Topology situation_;
  std::mutex mutex_;  ///< guards what follows
  /// Picks by collective, what the key demands, and bytes rounded up to a power of two.
  std::map<std::tuple<schedule::Collective, bool, bool, bool, bool, bool, int>,
           algorithms::ConfiguredAlgorithm>
      picks_;
  /// Seconds by collective, algorithm, block, segment and bytes.
  std::map<std::tuple<schedule::Collective, std::string, std::uint64_t, double, std::uint64_t>, double>
      predictions_;
};

}  // namespace kolo::selection
