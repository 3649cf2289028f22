// CostModel: the cost of messages and reductions on a machine or cluster, in a few numbers.
#pragma once

#include <limits>
#include <string>

#include "base/status.hpp"

namespace kolo::selection {

/// The cost of a message of n bytes between two ranks. The sender's processor works for `overhead` and, over
/// a network, `sender_per_byte` n. The message is in transit for `latency`. The receiver's processor works
/// for `overhead` and `receiver_per_byte` n. Over a network the bytes also occupy the links of both hosts,
/// for `wire_per_byte` n each. LogGP (A. Alexandrov, M. Ionescu, K. Schauser, C. Scheiman: LogGP:
/// Incorporating long messages into the LogP model, SPAA 1995), with the receiver's copy separate from the
/// wire. Seconds.
struct LinkCost {
  double latency = 0;
  double overhead = 0;
  double long_overhead = 0;
  double sender_per_byte = 0;
  double receiver_per_byte = 0;
  double wire_per_byte = 0;
  double longest_short = 8192;  ///< bytes; above it a message asks first. Not measured, not in tables.

  bool operator==(const LinkCost&) const = default;
};

/// LinkCost::longest_short over TCP, also within a host, for messages as the engine cuts them. The default is
/// that of shared memory.
inline constexpr double kNeverAsks = std::numeric_limits<double>::infinity();

/// A value. Ranks with a core each do not sleep, so they need no wake-up. If ranks share cores, each message
/// that its receiver had to wait for also costs a context switch.
struct CostModel {
  LinkCost memory;                                ///< between ranks of one host
  LinkCost network{.longest_short = kNeverAsks};  ///< between hosts
  double reduce_per_byte = 1e-10;                 ///< combining one operand into another, in cache
  double copy_per_byte = 1e-10;                   ///< a local copy
  double wake = 0;                                ///< extra work for a message whose receiver sleeps
  double cores = 1;                               ///< of each host, shared by its ranks
  double segment_bytes = 1u << 19;                ///< longer messages are cut, as by the engine

  bool operator==(const CostModel&) const = default;
};

/// Typical of one server and 10 Gbit/s Ethernet: used until something has been measured.
CostModel typical_cost_model();

/// Typical of TCP between ranks of one host.
LinkCost typical_loopback();

/// Whether every number is one that a measurement can give.
bool is_sane(const CostModel& model);

/// Text form of one line; exact in both directions. Parsing fails if the text is incomplete or not sane.
std::string to_text(const CostModel& model);
Result<CostModel> cost_model_from_text(const std::string& line);

}  // namespace kolo::selection
