// CostModel: what messages and reductions cost on a machine or cluster, in a few numbers.
#pragma once

#include <limits>
#include <string>

#include "base/status.hpp"

namespace kolo {

/// A message of n bytes from one rank to another: the sender's processor works `overhead` and, over a
/// network, `sender_per_byte` n; it is under way for `latency`; the receiver's processor works `overhead` and
/// `receiver_per_byte` n. Over a network the bytes also occupy their host's link, `wire_per_byte` n each way.
/// LogGP (A. Alexandrov, M. Ionescu, K. Schauser, C. Scheiman: LogGP: Incorporating long messages into the
/// LogP model, SPAA 1995) with the receiver's copy told apart from the wire. Seconds.
struct LinkCost {
  double latency = 0;
  double overhead = 0;
  double long_overhead = 0;
  double sender_per_byte = 0;
  double receiver_per_byte = 0;
  double wire_per_byte = 0;
  double longest_short = 8192;  ///< bytes; beyond it a message asks first. Not measured, and not in tables.

  bool operator==(const LinkCost&) const = default;
};

/// LinkCost::longest_short over TCP, within a host too, of messages as the engine cuts them; the default is
/// that of shared memory.
inline constexpr double kNeverAsks = std::numeric_limits<double>::infinity();

/// A value. Ranks that have a core each do not sleep, so that nothing wakes them; where they share cores,
/// each message that somebody had to wait for costs a change of context besides.
struct CostModel {
  LinkCost memory;                                ///< between ranks of one host
  LinkCost network{.longest_short = kNeverAsks};  ///< between hosts
  double reduce_per_byte = 1e-10;                 ///< one operand into another, in cache
  double copy_per_byte = 1e-10;                   ///< a local copy
  double wake = 0;                                ///< more work for a message that its receiver slept for
  double cores = 1;                               ///< of each host, shared by its ranks
  double segment_bytes = 1u << 19;                ///< as the engine cuts long messages

  bool operator==(const CostModel&) const = default;
};

/// Typical of one server and 10 Gbit/s Ethernet: what serves until something has been measured.
CostModel typical_cost_model();

/// Of TCP between ranks of one host.
LinkCost typical_loopback();

/// Every number is one that a measurement may give.
bool is_sane(const CostModel& model);

/// One line of text and back, exactly. from_text() refuses what is not sane or incomplete.
std::string to_text(const CostModel& model);
Result<CostModel> cost_model_from_text(const std::string& line);

}  // namespace kolo
