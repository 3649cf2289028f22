#include "bench/machine.hpp"

#include <sys/utsname.h>
#include <unistd.h>

#include <fstream>

#include "base/cores.hpp"

namespace kolo::bench {
namespace {

std::string cpu_name() {
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);) {
    if (!line.starts_with("model name")) continue;
    const auto value = line.find_first_not_of(" \t", line.find(':') + 1);
    return value == std::string::npos ? "" : line.substr(value);
  }
  return "unknown processor";
}

}  // namespace

Machine this_machine() {
  Machine machine;
  machine.cpu = cpu_name();
  machine.cores = usable_cores().count();
  machine.memory_GB =
      static_cast<double>(::sysconf(_SC_PHYS_PAGES)) * static_cast<double>(::sysconf(_SC_PAGESIZE)) / 1e9;
  utsname system;
  if (::uname(&system) == 0) machine.kernel = std::string(system.sysname) + " " + system.release;
  return machine;
}

}  // namespace kolo::bench
