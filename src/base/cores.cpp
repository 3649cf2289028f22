#include "base/cores.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <fstream>
#include <optional>

#include <fmt/format.h>

#include "base/cgroups.hpp"
#include "base/text_reader.hpp"

namespace kolo {
namespace {

constexpr double kNoQuota = std::numeric_limits<double>::infinity();

/// The quota of the group itself. cpu.max holds "200000 100000" or "max 100000"; version 1 has a file for
/// each number, and -1 for no limit.
double quota_of(const std::string& group) {
  double quota = -1;
  double period = 0;
  if (std::ifstream both(group + "/cpu.max"); both >> quota >> period) {
    return quota > 0 && period > 0 ? quota / period : kNoQuota;
  }
  std::ifstream used(group + "/cpu.cfs_quota_us");
  std::ifstream of(group + "/cpu.cfs_period_us");
  return used >> quota && of >> period && quota > 0 && period > 0 ? quota / period : kNoQuota;
}

std::optional<std::size_t> core_number(std::string_view text) {
  std::size_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size() || number >= kMostCores) return std::nullopt;
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
  // The system call needs room for all cores that the kernel supports, more than one cpu_set_t holds.
  using Word = unsigned long;  // of the mask, as in sched_setaffinity(2)
  constexpr std::size_t kBits = 8 * sizeof(Word);
  std::array<Word, kMostCores / kBits> own{};
  if (sched_getaffinity(0, sizeof own, reinterpret_cast<cpu_set_t*>(own.data())) == 0) {
    for (std::size_t i = 0; i < kMostCores; ++i) cores.set[i] = (own[i / kBits] >> (i % kBits) & 1) != 0;
  }
  cores.quota = cgroup_quota("/proc/self/cgroup", "/sys/fs/cgroup");
  return cores;
}

int processes_a_core(const Cores& own, const std::vector<Cores>& others) {
  const bool is_known = own.set.any();
  std::size_t beside = 1;
  std::size_t confined = 1;  // to this process's cores
  auto near = own.set;
  for (const Cores& other : others) {
    if (is_known && other.set.any() && (own.set & other.set).none()) continue;
    ++beside;
    near |= other.set;
    if ((other.set & ~own.set).none()) ++confined;
  }
  const auto share = [](std::size_t processes, std::size_t cores) {
    return (processes + std::max<std::size_t>(cores, 1) - 1) / std::max<std::size_t>(cores, 1);
  };
  return static_cast<int>(std::max(share(beside, near.count()), share(confined, own.set.count())));
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
    const char* const end = text.data() + text.size();
    const auto [read, error] = std::from_chars(text.data() + slash + 1, end, cores.quota);
    if (error != std::errc() || read != end || !(cores.quota > 0)) return {};
  }
  TextReader ranges(text.substr(0, slash));
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

double cgroup_quota(const std::string& membership, const std::string& mount) {
  double least = kNoQuota;
  for_each_cgroup(membership, mount, "cpu",
                  [&](const std::string& group) { least = std::min(least, quota_of(group)); });
  return least;
}

}  // namespace kolo
