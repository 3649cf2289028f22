// Wireup: the links between ranks that have just met, and what each of them offers for that.
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/deadline.hpp"
#include "engine/engine.hpp"
#include "kolo/communicator.hpp"
#include "kolo/error.hpp"
#include "transport/transport.hpp"

namespace kolo::comm {

[[noreturn]] inline void fail_to_meet(const std::string& what) {
  throw RendezvousError(what, {});
}

/// The links of a new group, and where its ranks are.
struct Wireup {
  std::shared_ptr<engine::Engine> engine;
  std::vector<int> hosts;               ///< as ScheduleSpec::hosts
  std::vector<std::string> host_names;  ///< of each host
  int cores = 1;                        ///< as Topology::cores
};

/// What the group of a communicator and those that shrink() makes from it have in common.
struct Terms {
  std::string job;         ///< the same on all ranks of a group, different between groups
  std::string store_host;  ///< the name or address by which all ranks know the store's host; may be empty
  Options options;
  std::string host = {};  ///< HostMark::name(), proved when the first of these groups met
};

/// Of calls, and of a start: the caller's, else the environment's.
std::chrono::nanoseconds timeout_of(const Options& options);

/// One rank's transports, listening. `text` is for the other ranks: printable, a few KiB at most.
struct Offer {
  std::map<std::string, std::unique_ptr<transport::Transport>> transports;
  std::string text;
  std::string why_not;  ///< why other transports are missing
};

/// Throws InvalidArgumentError where the settings make no sense.
Offer make_offer(int rank, const Terms& terms);

/// Enough for join() among ranks that have just spoken to each other.
inline constexpr std::chrono::seconds kJoinTime{5};

/// Links to all ranks, given what each of them offers, in rank order; collective. Throws RendezvousError that
/// names the ranks that have not come, at the deadline, or as soon as `is_gone` is true for one of them.
Wireup join(int rank, Offer offer, const std::vector<std::string>& offers, const Terms& terms,
            const Deadline& deadline, const transport::IsGone& is_gone = {});

}  // namespace kolo::comm
