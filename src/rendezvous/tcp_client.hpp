// Finding a store's server at one port, or at the first of several where it speaks for this job.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/deadline.hpp"
#include "base/status.hpp"
#include "kolo/store.hpp"
#include "security/credentials.hpp"

namespace kolo {

/// Where a job's store may be.
struct StoreAddress {
  std::string host;
  std::uint16_t port = 0;
  /// Ports from `port` on where the server may be, since it took the first free one. With more than one,
  /// servers of other jobs and strangers are passed over.
  int ports = 1;
  Credentials credentials = {};
  /// How the other ranks call the host, where that is not how this one dials it.
  std::string known_as = {};
};

/// Tries until the deadline; Code::rendezvous that names the address and why the last attempt failed. A
/// server that refuses our key is an answer when there is only one port.
Result<std::shared_ptr<Store>> find_store(const StoreAddress& address, const Deadline& deadline,
                                          std::chrono::nanoseconds operation_timeout);

}  // namespace kolo
