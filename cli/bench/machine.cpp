#include "bench/machine.hpp"

#include <sys/utsname.h>
#include <unistd.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

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

std::string machine_line(const Machine& machine, const std::string& version,
                         const Neighbourhood& neighbours) {
  nlohmann::ordered_json json;
  json["type"] = "machine";
  json["kolo"] = version;
  json["cpu"] = machine.cpu;
  json["cores"] = machine.cores;
  json["memory_GB"] = std::round(machine.memory_GB * 1000) / 1000;
  json["kernel"] = machine.kernel;
  json["neighbours"] = neighbours.count;
  if (neighbours.blip_us.second > 0) json["blip_us"] = neighbours.blip_us;
  return json.dump();
}

}  // namespace kolo::bench
