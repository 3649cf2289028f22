// The chooser: which algorithm a call runs.
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
#include "selection/situation.hpp"

namespace kolo {

/// What the choice depends on besides.
struct Choice {
  ScheduleSpec spec;  ///< its arguments are the choice's to fill in
  Demands demands;
  std::uint64_t bytes = 0;     ///< of the whole data as it is sent, the same number on every rank
  std::string_view wanted;     ///< by the caller; unknown names and unfit algorithms are errors
  std::string_view preferred;  ///< by the environment; used where the collective knows it and it fits
};

/// An algorithm and the time it is expected to take.
struct Ranked {
  Configured configured;
  double seconds = 0;
  bool measured = false;  ///< by the table; else predicted by the model
  bool native = false;    ///< would run in shared memory, without messages
};

/// How a call's data is cut, in bytes as they are sent.
struct Cuts {
  std::uint64_t block = 1;    ///< only the last block of the data may be shorter, and no part ends within one
  double segment = 1u << 19;  ///< the longest message
};

/// What a call runs, and what that is expected to cost.
struct Expectation {
  Configured configured;
  double seconds = 0;
  bool measured = false;        ///< as Ranked's
  bool native = false;          ///< as Ranked's
  std::uint64_t most_sent = 0;  ///< bytes, by the rank that sends most
};

/// One communicator's chooser. Thread-safe.
class Chooser {
 public:
  explicit Chooser(Situation situation) : situation_(std::move(situation)) {}

  /// The caller's algorithm, else the environment's, else the first of ranking(). A ring runs in the
  /// situation's order.
  Result<Configured> choose(const Choice& choice);

  /// What choose() says, and the time of one such call: what the table tells of that algorithm, beyond its
  /// largest size in proportion to the bytes, else what the model predicts: of the two ends of its class of
  /// sizes, for the model's time falls where messages become long enough to be cut once more. Changes no
  /// choice.
  Result<Expectation> expect(const Choice& choice, const Cuts& cuts);

  /// All candidates, the fastest first. Those that the table has times for at sizes near `bytes` (Measured)
  /// come before the others, which are in the order that the model predicts; of several that
  /// it finds equally fast, one that spares slow hosts, or else the one with the fewest connections between
  /// hosts, is the first. Of several that
  /// are measured as equally fast but for noise, the one that does best at the sizes around is the first.
  /// with_all_times: also of those that cannot be the first, as playing their schedules takes long.
  std::vector<Ranked> ranking(const ScheduleSpec& spec, const Demands& demands, std::uint64_t bytes,
                              bool with_all_times = true) const;

  /// As a call runs it: a ring in the situation's order, unless it has one of its own.
  Configured in_ring_order(Configured configured) const;

  const Situation& situation() const { return situation_; }

 private:
  /// choose() before the ring is put in order: as the table names it.
  Result<Configured> pick(const Choice& choice);
  bool may_be_native(const Demands& demands) const;
  /// What the table says of a candidate.
  std::optional<double> timed(const Configured& candidate, const Demands& demands,
                              const Measured& measured) const;
  double interpolated(const Configured& candidate, const ScheduleSpec& spec, std::uint64_t bytes,
                      const Cuts& cuts);
  double predicted(const Configured& candidate, ScheduleSpec spec, std::uint64_t bytes,
                   const Cuts& cuts) const;
  double predicted_natively(const ScheduleSpec& spec, std::uint64_t bytes) const;
  double estimated(const Configured& candidate, const ScheduleSpec& spec, std::uint64_t bytes) const;

  const Situation situation_;
  std::mutex mutex_;  ///< of what follows
  /// Picks by collective, demands and bytes rounded up to a power of two.
  std::map<std::tuple<Collective, bool, bool, bool, bool, bool, int>, Configured> picks_;
  /// Seconds by collective, algorithm, block, segment and bytes.
  std::map<std::tuple<Collective, std::string, std::uint64_t, double, std::uint64_t>, double> predictions_;
};

}  // namespace kolo
