#include "base/cores.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <fstream>
#include <optional>
#include <sstream>

#include <fmt/format.h>

namespace kolo {
namespace {

constexpr double kNoQuota = std::numeric_limits<double>::infinity();

/// Of the group itself: cpu.max holds "200000 100000" or "max 100000"; version 1 has a file for each number,
/// and -1 for no limit.
double quota_of(const std::filesystem::path& group) {
  double quota = -1;
  double period = 0;
  if (std::ifstream both(group / "cpu.max"); both >> quota >> period) {
    return quota > 0 && period > 0 ? quota / period : kNoQuota;
  }
  std::ifstream used(group / "cpu.cfs_quota_us");
  std::ifstream of(group / "cpu.cfs_period_us");
  return used >> quota && of >> period && quota > 0 && period > 0 ? quota / period : kNoQuota;
}

/// Of the group and all around it. In a container the path may be the one outside; the mount is its group
/// then.
double smallest_quota(const std::filesystem::path& mount, const std::filesystem::path& group) {
  double least = quota_of(mount);
  std::filesystem::path here = mount;
  for (const auto& part : group.relative_path()) least = std::min(least, quota_of(here /= part));
  return least;
}

std::optional<std::size_t> core_number(std::string_view text) {
  std::size_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size() || number >= CPU_SETSIZE) return std::nullopt;
  return number;
}

}  // namespace

int Cores::count() const {
  const auto all = static_cast<double>(set.count());
  return std::max(static_cast<int>(std::min(all, std::floor(quota))), 1);
}

Cores& Cores::operator|=(const Cores& other) {
  set |= other.set;
  quota = std::min(quota, other.quota);
  return *this;
}

Cores usable_cores() {
  Cores cores;
  cpu_set_t own;
  CPU_ZERO(&own);
  if (sched_getaffinity(0, sizeof own, &own) == 0) {
    for (std::size_t i = 0; i < CPU_SETSIZE; ++i) cores.set[i] = CPU_ISSET(i, &own) != 0;
  }
  cores.quota = cgroup_quota("/proc/self/cgroup", "/sys/fs/cgroup");
  return cores;
}

bool is_crowded(const Cores& own, const std::vector<Cores>& others) {
  std::size_t processes = 1;
  auto near = own.set;
  for (const Cores& other : others) {
    const bool is_apart = own.set.any() && other.set.any() && (own.set & other.set).none();
    if (is_apart) continue;
    ++processes;
    near |= other.set;
  }
  return processes > std::max<std::size_t>(near.count(), 1);
}

std::string to_text(const Cores& cores) {
  std::string text;
  for (std::size_t first = 0; first < cores.set.size(); ++first) {
    if (!cores.set[first]) continue;
    std::size_t last = first;
    while (last + 1 < cores.set.size() && cores.set[last + 1]) ++last;
    if (!text.empty()) text += ',';
    text += last == first ? fmt::format("{}", first) : fmt::format("{}-{}", first, last);
    first = last;
  }
  if (cores.quota != kNoQuota) text += fmt::format("/{:.6g}", cores.quota);
  return text;
}

Cores parse_cores(const std::string& text) {
  Cores cores;
  const auto slash = text.find('/');
  if (slash != std::string::npos) {
    std::istringstream number(text.substr(slash + 1));
    if (!(number >> cores.quota) || !(cores.quota > 0)) return {};
  }
  std::istringstream ranges(text.substr(0, slash));
  for (std::string range; std::getline(ranges, range, ',');) {
    const std::string_view both = range;
    const auto dash = both.find('-');
    const auto first = core_number(both.substr(0, dash));
    const auto last = dash == std::string::npos ? first : core_number(both.substr(dash + 1));
    if (!first || !last) return {};
    for (std::size_t i = *first; i <= *last; ++i) cores.set.set(i);
  }
  return cores;
}

double cgroup_quota(const std::filesystem::path& membership, const std::filesystem::path& mount) {
  double least = kNoQuota;
  std::ifstream lines(membership);
  for (std::string line; std::getline(lines, line);) {  // "3:cpu,cpuacct:/a/b" or, in version 2, "0::/a/b"
    const auto first = line.find(':');
    const auto second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    const std::string group = line.substr(second + 1);
    if (controllers == ",,") {
      for (const char* usual : {"", "unified"}) least = std::min(least, smallest_quota(mount / usual, group));
    } else if (controllers.find(",cpu,") != std::string::npos) {
      for (const char* usual : {"cpu", "cpu,cpuacct"})
        least = std::min(least, smallest_quota(mount / usual, group));
    }
  }
  return least;
}

}  // namespace kolo
