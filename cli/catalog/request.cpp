#include "catalog/request.hpp"

#include <charconv>
#include <numeric>

#include "text/refuse.hpp"
#include "text/size.hpp"

namespace kolo::cli {
namespace {

/// -1 where `text` is not a number.
int number_of(std::string_view text) {
  int value = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() ? value : -1;
}

}  // namespace

std::vector<int> parse_ranks_per_host(std::string_view text) {
  constexpr int kMostRanks = 1 << 20;
  std::vector<int> hosts;
  if (text.empty()) return hosts;
  int host = 0;
  for (const std::string_view part : split(text, ',')) {
    const int ranks = number_of(part);
    if (ranks < 1 || ranks > kMostRanks)
      refuse("--hosts {}: it must be the number of ranks on each host, as in 3,2,3", text);
    hosts.insert(hosts.end(), static_cast<std::size_t>(ranks), host++);
  }
  return hosts;
}

std::vector<int> parse_ranks(std::string_view text, const std::vector<int>& hosts, int limit,
                             std::vector<int> otherwise) {
  const auto on_hosts = static_cast<int>(hosts.size());
  if (text.empty() && !hosts.empty()) otherwise = {on_hosts};
  if (!text.empty()) {
    const std::vector<std::string_view> ends = split(text, ':');
    const int first = number_of(ends.front()), last = number_of(ends.back());
    if (ends.size() > 2 || first < 1 || last < first) {
      refuse("--ranks {}: it must be a number from 1, or two as in 2:8, the smaller first", text);
    }
    if (last > limit) refuse("--ranks {}: {} ranks are the most here", text, limit);
    otherwise.resize(static_cast<std::size_t>(last - first + 1));
    std::iota(otherwise.begin(), otherwise.end(), first);
  }
  for (const int ranks : otherwise) {
    if (!hosts.empty() && ranks != on_hosts) {
      refuse("the hosts hold {} ranks, not {}", on_hosts, ranks);
    }
    if (ranks > limit) refuse("{} ranks are the most here, not {}", limit, ranks);
  }
  return otherwise;
}

int checked_root(int root, schedule::Collective collective, int size) {
  if (root < 0 || root >= size) refuse("--root {}: the {} ranks are 0 to {}", root, size, size - 1);
  return schedule::has_root(collective) ? root : 0;
}

}  // namespace kolo::cli
