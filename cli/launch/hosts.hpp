// The hosts of a job, as a person writes them, and how they reach this one.
#pragma once

#include <string>
#include <vector>

namespace kolo::cli {

/// The largest job that is started: a process more for each rank is soon too much for a machine.
constexpr int kLargestJob = 4096;

struct HostSlots {
  std::string login;  ///< what ssh is given: "b", "me@b", "fd00::2"
  int slots = 1;      ///< ranks that run there

  /// Without the user.
  std::string name() const { return login.substr(login.find('@') + 1); }
};

/// "a:4,me@b:2,c,[fd00::2]:4"; one slot where none is named. Throws InvalidArgument that quotes the item.
std::vector<HostSlots> parse_hosts(const std::string& list);
/// A host a line, "b 4" or as in a list; # starts a comment. Throws InvalidArgument that names file and line.
std::vector<HostSlots> read_hosts_file(const std::string& path);

/// Where a job over several hosts meets.
struct Meet {
  std::string store;   ///< an address of this host at which the others reach it
  std::string master;  ///< an address of the first host
};

/// `store_address` may be empty: then the one from which the kernel would send to the first host that is not
/// this one. Throws RendezvousError when a name is unknown or no route leads there.
Meet choose_meeting(const std::vector<HostSlots>& hosts, const std::string& store_address);

}  // namespace kolo::cli
