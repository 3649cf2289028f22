// Plan: what happens in a round. Everything follows from the round's seed.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "stress/random.hpp"

namespace kolo::stress {

inline constexpr int kMostRanks = 16;

enum class Fault {
  none,
  kill,           ///< one rank
  kill_two,       ///< a moment apart
  kill_meeting,   ///< one rank, maybe before all have met
  pause,          ///< stopped, goes on before the deadline: no rank may fail
  stop,           ///< stopped, goes on (or is killed) after the other ranks have given up
  stop_and_kill,  ///< one is stopped, then another one killed
  kill_stopped,   ///< stopped, then killed before the deadline
};
inline constexpr int kFaults = 8;
const char* name_of(Fault fault);

struct Limits {
  std::uint64_t most_bytes = 0;      ///< of one call
  std::chrono::nanoseconds timeout;  ///< of the communicators
  std::chrono::nanoseconds grace;    ///< how long survivors may take to notice
  std::vector<std::string> transports;
  std::vector<Fault> faults;  ///< those that rounds choose from; empty: all, each with its usual share
};

/// What happens to a rank.
struct Hit {
  int rank = 0;
  int signal = 0;                  ///< SIGKILL or SIGSTOP
  std::chrono::nanoseconds after;  ///< the hit before it, or the beginning of the round
};

struct Plan {
  std::uint64_t seed = 0;
  int ranks = 2;
  std::string transport = {};
  Fault fault = Fault::none;
  std::vector<Hit> hits = {};
  std::chrono::nanoseconds pause{};  ///< Fault::pause: for how long
  bool private_memory = false;       ///< also; else calls run in library memory alone
  bool shrinks = false;              ///< the survivors of kills go on with a smaller communicator
  bool goes_on = false;              ///< a rank stopped to the end goes on when the other ranks have given up

  static Plan make(std::uint64_t seed, int ranks, const Limits& limits);
  bool is_hit(int rank) const;
  bool is_killed(int rank) const;
  int survivors() const;
  bool all_survive() const { return fault == Fault::none || fault == Fault::pause; }
};

enum class Kind { all_reduce, broadcast, all_gather, reduce_scatter, barrier };
enum class Group { world, half, mirrored };  ///< mirrored: all ranks, the last one first

/// One or several calls that all ranks of a group make.
struct Step {
  Group group = Group::world;
  Kind kind = Kind::all_reduce;
  std::uint64_t count = 1;  ///< elements of each rank's part, or of the data that has no parts
  std::uint64_t root = 0;   ///< modulo the group's size
  int calls = 1;            ///< more than one: asynchronous, waited for at the end
  bool asynchronous = false;
  bool in_place = true;
  const char* algorithm = "";
};

/// The steps of a round, the same on all ranks. Most rounds mix all there is; some repeat one step, so that
/// the hit falls into it.
class Steps {
 public:
  Steps(const Plan& plan, const Limits& limits);
  Step next();

 private:
  Step draw();

  Random random_;
  std::uint64_t most_elements_;  ///< of one call and rank
  bool repeats_;
  Step repeated_;
};

}  // namespace kolo::stress
