// The shm address: host, user and socket of a rank.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace kolo::transport::shm {

/// Text: "host=..;user=..;uid=..;socket=..".
struct Address {
  std::string host;  ///< TransportOptions::host
  std::string user_namespace, uid;
  std::string socket;  ///< abstract: without the leading zero byte

  std::string text() const;
  static std::optional<Address> parse(std::string_view text);
  /// A new, random socket name of this process.
  static Address make(const std::string& host);
};

/// Whether both are on one host, for one user. User ids compare only within one user namespace.
bool same_place(const Address& one, const Address& other);

}  // namespace kolo::transport::shm
