// Estimate: what one call of a collective is expected to take.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace kolo {

/// What Communicator::estimate() returns. A value.
///
/// The same on all ranks of a communicator that pass the same arguments: it follows from what the ranks
/// agreed on while they met (hosts, links, rank 0's tuning table, the largest of their measured costs), and
/// is computed alike on all processors. The ranks must have the same build of kolo and the same
/// KOLO_ALGORITHM, KOLO_SEGMENT_BYTES and KOLO_WIRE, as for the call itself. It differs from run to run where
/// no table holds the costs, because the ranks then measure them anew.
///
/// It is an estimate, not a bound. It assumes that all ranks make this one call at the same moment, with
/// nothing else on the links and processors. Computation beside it, other operations, late ranks and TCP's
/// losses come on top. The work of a wire format is not in it. docs/choosing.md tells how far it is off.
///
/// Time grows with the bytes, except for noise: from one size to a larger one it may fall by a tenth, and by
/// a quarter if calls are short. It may also fall between points of a table if a disturbed measurement made
/// them fall.
struct Estimate {
  /// From the start on all ranks until the last one is done.
  std::chrono::duration<double> time{0};
  /// What Work::algorithm() of such a call says.
  std::string algorithm = {};
  /// Payload of the rank that sends most, as Counters::bytes_sent counts it; 0 in shared memory. A root is
  /// taken to be rank 0.
  std::uint64_t bytes_sent = 0;
  /// `time` comes from the tuning table; else from the cost model.
  bool measured = false;
  /// The call runs in memory that all ranks share, without messages.
  bool shared_memory = false;

  /// Whether all members are equal.
  bool operator==(const Estimate&) const = default;
};

}  // namespace kolo
