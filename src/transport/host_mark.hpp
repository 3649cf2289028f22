// HostMark: proves which ranks share a host. What the kernel tells of itself may be hidden, or equal on
// machines that were restored from one snapshot.
#pragma once

#include <string>
#include <string_view>

#include "base/unique_fd.hpp"

namespace kolo::transport {

/// One rank's part in the proof. In each network namespace, the first rank of a job to come binds an abstract
/// Unix address of the job, and one that has its rank in it. The other ranks find the first address in use,
/// and can connect to the second one.
class HostMark {
 public:
  /// `job`: the same on all ranks of a job, and known to them alone. Waits for three seconds at most, if the
  /// first rank of this host does not get on.
  HostMark(std::string_view job, int rank, int size);

  /// Equal for the ranks of a job that share a network namespace, as long as all of them keep their HostMark
  /// until the last one has made it.
  const std::string& name() const { return name_; }

 private:
  std::string name_;
  UniqueFd job_, rank_;  // of the first rank
};

}  // namespace kolo::transport
