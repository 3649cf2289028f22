// Host: identifies this kernel and its namespaces, so that ranks know which ranks share them.
#pragma once

#include <string>

namespace kolo::transport {

/// The identity of the machine and of the namespaces that decide which processes can reach each other on it.
struct Host {
  std::string boot;            ///< random per boot; the same in all containers of one kernel
  std::string net_namespace;   ///< inode: abstract Unix sockets and loopback are per network namespace
  std::string user_namespace;  ///< inode: user ids compare only within one
};

/// Reads /proc once. A field that the kernel hides gets a random value, which equals no other host's.
/// Thread-safe.
const Host& this_host();

}  // namespace kolo::transport
