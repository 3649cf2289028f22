// Finds a store's server at one port, or at the first of several ports where the server belongs to this job.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/deadline.hpp"
#include "base/status.hpp"
#include "kolo/store.hpp"
#include "net/credentials.hpp"

namespace kolo::rendezvous {

/// Where a job's store may be.
struct StoreAddress {
  std::string host;
  std::uint16_t port = 0;
  /// Number of ports, from `port` on, at which the server may be: it took the first free one. If more than
  /// one, servers of other jobs and strangers are skipped.
  int ports = 1;
  net::Credentials credentials = {};
  /// The host's name for the other ranks, if this rank dials another one.
  std::string known_as = {};
};

/// Tries until the deadline; Code::rendezvous names the address and the reason of the last failure. If there
/// is only one port, a server that refuses this rank's key ends the search.
Result<std::shared_ptr<Store>> find_store(const StoreAddress& address, const Deadline& deadline);

}  // namespace kolo::rendezvous
