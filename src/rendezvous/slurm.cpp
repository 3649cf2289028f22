#include "rendezvous/slurm.hpp"

#include <algorithm>
#include <charconv>
#include <cstdint>

namespace kolo::rendezvous {
namespace {

template <typename Number>
std::optional<Number> parse(std::string_view text) {
  Number value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

}  // namespace

bool in_slurm_step(const Lookup& lookup) {
  const auto step = lookup("SLURM_STEP_ID");
  if (!step || !lookup("SLURM_PROCID")) return false;
  // slurm.h: SLURM_INTERACTIVE_STEP, SLURM_BATCH_SCRIPT and similar values are 0xfffffffa and up.
  constexpr std::uint64_t kFirstSpecial = 0xfffffff0u;
  const auto number = parse<std::uint64_t>(*step);
  return number && *number < kFirstSpecial;
}

std::optional<std::string> first_slurm_host(std::string_view list) {
  std::string host;
  while (!list.empty() && list.front() != ',') {
    if (list.front() != '[') {
      host += list.front();
      list.remove_prefix(1);
      continue;
    }
    // "[01-04,7]": the beginning of the first range. Its digits stay as they are, with leading zeros.
    const auto close = list.find(']');
    if (close == std::string_view::npos) return std::nullopt;
    const auto first = list.substr(1, list.find_first_of("-,]") - 1);
    if (first.empty() || first.find_first_not_of("0123456789") != std::string_view::npos) return std::nullopt;
    host += first;
    list.remove_prefix(close + 1);
  }
  if (host.empty() || host.find_first_of("[] \t") != std::string::npos) return std::nullopt;
  return host;
}

std::optional<int> slurm_tasks_on_node(std::string_view list, int node) {
  while (!list.empty() && node >= 0) {
    const auto item = list.substr(0, list.find(','));
    list.remove_prefix(std::min(list.size(), item.size() + 1));
    const auto open = item.find("(x");
    const auto tasks = parse<int>(item.substr(0, open));
    std::optional<int> nodes = 1;
    if (open != std::string_view::npos) {
      if (!item.ends_with(')')) return std::nullopt;
      nodes = parse<int>(item.substr(open + 2, item.size() - open - 3));
    }
    if (!tasks || !nodes || *tasks < 1 || *nodes < 1) return std::nullopt;
    if (node < *nodes) return tasks;
    node -= *nodes;
  }
  return std::nullopt;
}

}  // namespace kolo::rendezvous
