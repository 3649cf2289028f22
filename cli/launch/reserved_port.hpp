// A port kept free for the program's own use.
#pragma once

#include "base/unique_fd.hpp"

namespace kolo::cli {

/// A port that the system assigns to no other socket while this object lives. A server that sets
/// SO_REUSEADDR, as servers do, can still bind it. On IPv4's loopback, or on all addresses. Throws
/// kolo::Error.
class ReservedPort {
 public:
  explicit ReservedPort(bool loopback);
  int port() const { return port_; }

 private:
  UniqueFd fd_;
  int port_ = 0;
};

}  // namespace kolo::cli
