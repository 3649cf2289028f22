// The hosts of a job: parses lists of hosts, and finds the addresses at which hosts reach this one.
#pragma once

#include <string>
#include <vector>

namespace kolo::cli {

/// Maximum number of ranks of a job. Each rank is a process, and more would overload a machine.
constexpr int kLargestJob = 4096;

struct HostSlots {
  std::string login;  ///< argument for ssh: "b", "me@b", "fd00::2"
  int slots = 1;      ///< ranks that run there

  /// The host without the user.
  std::string name() const { return login.substr(login.find('@') + 1); }
};

/// Parses "a:4,me@b:2,c,[fd00::2]:4"; one slot if no number is given. Throws InvalidArgument that quotes the
/// item.
std::vector<HostSlots> parse_hosts(const std::string& list);
/// Reads one host a line, "b 4" or as in a list; # starts a comment. Throws InvalidArgument that names file
/// and line.
std::vector<HostSlots> read_hosts_file(const std::string& path);

/// The addresses of a job over several hosts.
struct Meet {
  std::string store;   ///< an address of this host at which the other hosts reach it
  std::string master;  ///< an address of the first host
};

/// If `store_address` is empty, the store's address is the one from which the kernel would send to the first
/// host that is not this one. Throws RendezvousError if a name is unknown or there is no route.
Meet choose_meeting(const std::vector<HostSlots>& hosts, const std::string& store_address);

}  // namespace kolo::cli
