// The chooser: which algorithm a call runs.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "algorithms/algorithm.hpp"
#include "base/status.hpp"
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

/// One communicator's chooser. Used by one thread at a time.
class Chooser {
 public:
  explicit Chooser(Situation situation) : situation_(std::move(situation)) {}

  /// The caller's algorithm, else the environment's, else the first of ranking(). A ring runs in the
  /// situation's order.
  Result<Configured> choose(const Choice& choice);

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
  double predicted(const Configured& candidate, ScheduleSpec spec, std::uint64_t bytes) const;
  double predicted_natively(const ScheduleSpec& spec, std::uint64_t bytes) const;
  double estimated(const Configured& candidate, const ScheduleSpec& spec, std::uint64_t bytes) const;

  Situation situation_;
  /// Picks by collective, demands and bytes rounded up to a power of two.
  std::map<std::tuple<Collective, bool, bool, bool, bool, bool, int>, Configured> picks_;
};

}  // namespace kolo
