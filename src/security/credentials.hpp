// Credentials: what a process shows to those it connects to, and what it asks of them.
#pragma once

#include <memory>
#include <string>

#include "security/tls.hpp"

namespace kolo {

struct Credentials {
  std::string key = {};                 ///< the job's secret; may be empty
  std::string job = {};                 ///< tells jobs apart that have the same key, or none
  std::shared_ptr<const Tls> tls = {};  ///< null: no encryption
  bool insecure = false;                ///< other hosts may connect although there is no key

  /// Code::invalid_argument that says what to set where `address`, which is not on loopback, would be open to
  /// everybody.
  Status allow(bool is_loopback, const std::string& address) const;
  /// Whether what is connected to `fd`, perhaps a process of another user of this host, may go on to the
  /// handshake. Where there is no key, all connections are on loopback, and the user must be this one.
  Status admit(int fd) const;
};

/// With `key` and what else the settings say; Code::invalid_argument where they make no sense.
Result<Credentials> make_credentials(const Config& config, std::string key);

}  // namespace kolo
