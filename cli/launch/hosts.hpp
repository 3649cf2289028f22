// The hosts of a job: parses lists of hosts, and finds the addresses and the port at which ranks meet.
#pragma once

#include <iosfwd>
#include <string>
#include <vector>

#include "base/unique_fd.hpp"

namespace kolo::cli {

/// Maximum number of ranks of a job. Each rank is a process, and more would overload a machine.
constexpr int kLargestJob = 4096;

struct HostSlots {
  std::string login;  ///< argument for ssh: "b", "me@b", "fd00::2"
  int slots = 1;      ///< ranks that run there

  /// The host without the user.
  std::string name() const { return login.substr(login.rfind('@') + 1); }
};

/// Parses "a:4,me@b:2,c,[fd00::2]:4"; one slot if no number is given. Throws InvalidArgumentError that quotes
/// the item.
std::vector<HostSlots> parse_hosts(const std::string& list);
/// Reads one host a line, "b 4" or as in a list; # starts a comment. Throws InvalidArgumentError that gives
/// `name` and the line.
std::vector<HostSlots> read_hosts(std::istream& lines, const std::string& name);
std::vector<HostSlots> read_hosts_file(const std::string& path);
/// From the output of a shell command, which must succeed.
std::vector<HostSlots> run_hosts_command(const std::string& command);

struct JobAddresses {
  std::string store;   ///< of this host; the other hosts reach it there
  std::string master;  ///< of the first host
};

/// If `store_address` is empty, the store's address is the one from which the kernel would send to the first
/// host that is not this one. Without hosts both are loopback. Throws RendezvousError if a name is unknown or
/// there is no route, SystemError if loopback is down.
JobAddresses choose_addresses(const std::vector<HostSlots>& hosts, const std::string& store_address);

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
