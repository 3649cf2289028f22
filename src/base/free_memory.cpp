#include "base/free_memory.hpp"

#include <algorithm>
#include <fstream>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>

#include "base/cgroups.hpp"

namespace kolo {
namespace {

constexpr std::uint64_t kUnknown = ~std::uint64_t{0};

/// The number in a file.
std::optional<std::uint64_t> number_in(const std::string& file) {
  std::ifstream in(file);
  std::uint64_t number = 0;
  return in >> number ? std::optional(number) : std::nullopt;
}

/// Nullopt if the file is missing, or holds "max" or the number that means the same in version 1.
std::optional<std::uint64_t> limit_in(const std::string& file) {
  constexpr std::uint64_t kMost = std::uint64_t{1} << 62;
  const auto limit = number_in(file);
  return limit && *limit < kMost ? limit : std::nullopt;
}

/// Reads lines "NAME NUMBER" or "NAME: NUMBER kB" and sums the numbers of these names.
std::uint64_t sum_of(const std::string& file, std::initializer_list<std::string_view> names) {
  std::ifstream in(file);
  std::uint64_t sum = 0;
  std::string name;
  for (std::uint64_t number = 0; in >> name >> number; in.ignore(256, '\n')) {
    if (std::ranges::find(names, name) != names.end()) sum += number;
  }
  return sum;
}

std::uint64_t plus(std::uint64_t a, std::uint64_t b) {
  return a < kUnknown - b ? a + b : kUnknown;
}

/// What is left of the limit in file `limit`, given the use in file `use`; kUnknown without a limit. `files`:
/// entries of memory.stat that count as used but can be dropped.
std::uint64_t left_of(const std::string& group, const char* limit, const char* use,
                      std::initializer_list<std::string_view> files = {}) {
  const auto most = limit_in(group + "/" + limit);
  if (!most) return kUnknown;
  const std::uint64_t used = number_in(group + "/" + use).value_or(0);
  const std::uint64_t droppable = files.size() == 0 ? 0 : sum_of(group + "/memory.stat", files);
  return *most - std::min(*most, used - std::min(used, droppable));
}

std::uint64_t free_in_version_2(const std::string& group, std::uint64_t swap_free) {
  const auto files = {std::string_view("active_file"), std::string_view("inactive_file")};
  const std::uint64_t memory = std::min(left_of(group, "memory.max", "memory.current", files),
                                        left_of(group, "memory.high", "memory.current", files));
  if (memory == kUnknown) return kUnknown;
  return plus(memory, std::min(left_of(group, "memory.swap.max", "memory.swap.current"), swap_free));
}

std::uint64_t free_in_version_1(const std::string& group, std::uint64_t swap_free) {
  const auto files = {std::string_view("total_active_file"), std::string_view("total_inactive_file")};
  return std::min(plus(left_of(group, "memory.limit_in_bytes", "memory.usage_in_bytes", files), swap_free),
                  left_of(group, "memory.memsw.limit_in_bytes", "memory.memsw.usage_in_bytes", files));
}

}  // namespace

std::uint64_t system_free_memory(const std::string& meminfo) {
  const std::uint64_t kilobytes = sum_of(meminfo, {"MemAvailable:", "SwapFree:"});
  return kilobytes > 0 ? kilobytes << 10 : kUnknown;
}

std::uint64_t cgroup_free_memory(const std::string& membership, const std::string& mount,
                                 std::uint64_t swap_free) {
  std::uint64_t least = kUnknown;
  for_each_cgroup(membership, mount, "memory", [&](const std::string& group) {
    least = std::min({least, free_in_version_1(group, swap_free), free_in_version_2(group, swap_free)});
  });
  return least;
}

std::uint64_t free_memory() {
  const std::string meminfo = "/proc/meminfo";
  const std::uint64_t swap_free = sum_of(meminfo, {"SwapFree:"}) << 10;
  return std::min(system_free_memory(meminfo),
                  cgroup_free_memory("/proc/self/cgroup", "/sys/fs/cgroup", swap_free));
}

}  // namespace kolo
