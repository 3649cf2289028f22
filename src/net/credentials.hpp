// Credentials: what a process shows to the processes that it connects to, and what it requires of them.
#pragma once

#include <memory>
#include <string>

#include "net/tls.hpp"

namespace kolo::net {

struct Credentials {
  std::string key = {};                 ///< the job's secret; may be empty
  std::string job = {};                 ///< distinguishes jobs that have the same key, or none
  std::shared_ptr<const Tls> tls = {};  ///< null: no encryption
  bool insecure = false;                ///< other hosts may connect although there is no key

  /// Code::invalid_argument that says what to set, if `address` is not on loopback and would be open to every
  /// host.
  Status allow(bool is_loopback, const std::string& address) const;
  /// Whether the process at the other end of `fd`, perhaps of another user of this host, may go on to the
  /// handshake. Without a key all connections are on loopback, and the user must be this process's.
  Status admit(int fd) const;
};

/// Credentials with `key` and the other settings; Code::invalid_argument if they make no sense.
Result<Credentials> make_credentials(const Config& config, std::string key);

}  // namespace kolo::net
