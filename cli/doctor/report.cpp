#include "doctor/report.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/resource.h>

#include <algorithm>
#include <map>

#include "kolo/version.hpp"
#include "text/columns.hpp"
#include "text/size.hpp"

namespace kolo::doctor {
namespace {

std::string bytes_text(std::uint64_t bytes) {
  if (bytes == RLIM_INFINITY) return "no limit";
  return cli::format_size(bytes);
}

std::string count_text(std::uint64_t count) {
  return count == RLIM_INFINITY ? "no limit" : std::to_string(count);
}

std::string speed_text(double bytes_per_second) {
  return bytes_per_second >= 1e9 ? fmt::format("{:.2f} GB/s", bytes_per_second / 1e9)
                                 : fmt::format("{:.1f} MB/s", bytes_per_second / 1e6);
}

std::string hosts_text(const Examination& seen, std::size_t width) {
  std::vector<cli::Cells> lines;
  for (const int leader : seen.leaders()) {
    const Facts& facts = seen.of(leader);
    Card card = seen.card_to_others(leader);
    if (card.name.empty()) card.name = "-";
    lines.push_back({seen.host_name(leader), fmt::format("{}", fmt::join(seen.neighbours(leader), ",")),
                     card.name, card.address.empty() ? "-" : card.address,
                     card.family.empty() ? "-" : card.family, card.mtu == 0 ? "-" : std::to_string(card.mtu),
                     std::to_string(seen.cores(leader).count()), count_text(facts.files),
                     bytes_text(facts.locked), facts.memfd.empty() ? "yes" : "no",
                     facts.direct_read.empty() ? "yes" : "no", facts.huge_pages.empty() ? "yes" : "no"});
  }
  const auto column = [](const char* name, int detail = 0, const char* below = "") {
    return cli::Column{name, below, 0, true, detail};
  };
  return cli::table(
      {column("host"), column("ranks"), column("interface"), column("address"), column("family", 3),
       column("MTU", 1), column("cores"), column("files", 2), column("lockable", 2), column("memfd", 1),
       column("direct", 1, "reads"), column("huge", 1, "pages")},
      lines, width);
}

std::string interface_text(const Examination& seen) {
  if (seen.leaders().size() < 2)
    return "one host: ranks talk through shared memory; no interface is needed\n";
  std::map<std::string, std::vector<std::string>> reasons;
  for (const int leader : seen.leaders()) {
    const std::string& told = seen.of(leader).interface;
    if (seen.card_to_others(leader).name.empty()) continue;
    reasons[told.empty() ? "leads to the other hosts (KOLO_INTERFACE names another)"
                         : "KOLO_INTERFACE=" + told + " says so"]
        .push_back(seen.host_name(leader));
  }
  std::string text;
  for (const auto& [reason, hosts] : reasons) {
    text +=
        cli::wrapped(fmt::format("interface of {}: {}", fmt::join(hosts, ", "), reason), cli::kTerminalWidth);
  }
  return text;
}

/// What KOLO_GPU=auto chooses for these ranks, if each takes a GPU of its host in turn, and why.
std::string gpu_engine(const Examination& seen) {
  const Facts& first = seen.ranks.front();
  std::map<std::string, int> owners;
  for (const Facts& rank : seen.ranks) {
    if (rank.gpus.empty()) return fmt::format("none, for {} has no GPU", seen.host_name(rank.rank));
    if (rank.nccl.empty()) return fmt::format("staged, for {} has no NCCL", seen.host_name(rank.rank));
    if (rank.nccl != first.nccl)
      return fmt::format("staged, for NCCL is {} on {} and {} on {}", first.nccl, seen.host_name(first.rank),
                         rank.nccl, seen.host_name(rank.rank));
    const auto here = seen.neighbours(rank.rank);
    const auto turn = static_cast<std::size_t>(std::ranges::find(here, rank.rank) - here.begin());
    const auto [owner, is_own] = owners.emplace(rank.gpus[turn % rank.gpus.size()], rank.rank);
    if (!is_own)
      return fmt::format("staged, for ranks {} and {} share a GPU; nccl with one for each", owner->second,
                         rank.rank);
  }
  return fmt::format("nccl, for all have NCCL {} and a GPU for each rank", first.nccl);
}

/// Nothing where no host has a GPU.
std::string gpus_text(const Examination& seen) {
  std::string text;
  for (const int leader : seen.leaders()) {
    const Facts& host = seen.of(leader);
    if (host.gpus.empty()) continue;
    const std::string nccl = host.nccl.empty() ? "no NCCL" : "NCCL " + host.nccl;
    text += cli::wrapped(fmt::format("GPUs of {}: {}; {}: {}", seen.host_name(leader),
                                     fmt::join(host.gpus, ", "), nccl, host.nccl_from),
                         cli::kTerminalWidth);
  }
  if (text.empty()) return text;
  return text + cli::wrapped("KOLO_GPU=auto would take: " + gpu_engine(seen), cli::kTerminalWidth);
}

/// A matrix, if it fits on a screen.
std::string reach_text(const Examination& seen) {
  constexpr std::size_t kMostColumns = 16;
  const auto good =
      std::count_if(seen.dials.begin(), seen.dials.end(), [](const Dial& d) { return d.outcome == "ok"; });
  std::string text = fmt::format("{} of {} dials were answered, each rank to each other at its real port\n",
                                 good, seen.dials.size());
  if (seen.ranks.size() > kMostColumns || good == static_cast<long>(seen.dials.size())) return text;
  std::vector<cli::Cells> lines = {{"from \\ to"}};
  for (const Facts& to : seen.ranks) lines[0].push_back(std::to_string(to.rank));
  for (const Facts& from : seen.ranks) {
    cli::Cells line = {std::to_string(from.rank)};
    for (const Facts& to : seen.ranks) {
      const auto dial = std::find_if(seen.dials.begin(), seen.dials.end(),
                                     [&](const Dial& d) { return d.from == from.rank && d.to == to.rank; });
      line.push_back(dial == seen.dials.end() ? "." : dial->outcome);
    }
    lines.push_back(line);
  }
  return text + cli::in_columns(lines);
}

std::string pairs_text(const Examination& seen, std::size_t width) {
  std::vector<cli::Cells> lines;
  for (const Pair& pair : seen.pairs) {
    if (!pair.error.empty()) {
      lines.push_back({seen.name(pair.from), seen.name(pair.to), "failed", "-", "-", "-", "-"});
      continue;
    }
    const bool one_clock = seen.of(pair.from).place == seen.of(pair.to).place;
    lines.push_back({seen.name(pair.from), seen.name(pair.to), pair.transport,
                     fmt::format("{:.1f} us", pair.latency_us), speed_text(pair.there), speed_text(pair.back),
                     one_clock ? "the same" : fmt::format("{:+.2f} ms", pair.clock_s * 1e3)});
  }
  if (lines.empty()) return "";
  return cli::table({{"from", "", 0, true},
                     {"to", "", 0, true},
                     {"over", "", 0, true, 1},
                     {"latency"},
                     {"there"},
                     {"back"},
                     {"clock"}},
                    lines, width);
}

std::string findings_text(const std::vector<Finding>& findings) {
  constexpr std::size_t kWidth = cli::kTerminalWidth;
  constexpr const char* kIndent = "         ";
  if (findings.empty()) return "nothing is wrong\n";
  const auto problems =
      std::count_if(findings.begin(), findings.end(), [](const Finding& f) { return f.problem; });
  const auto warnings = static_cast<std::ptrdiff_t>(findings.size()) - problems;
  std::string text = fmt::format("{} problem{}, {} warning{}\n", problems, problems == 1 ? "" : "s", warnings,
                                 warnings == 1 ? "" : "s");
  for (const Finding& finding : findings) {
    text += cli::wrapped(finding.what, kWidth, finding.problem ? "problem  " : "warning  ", kIndent);
    text += cli::wrapped(finding.fix, kWidth, "  fix    ", kIndent);
  }
  return text;
}

}  // namespace

std::string report_text(const Examination& seen, const std::vector<Finding>& findings, bool wide) {
  const std::size_t width = cli::table_width(wide);
  const bool keyed = !seen.ranks.empty() && !seen.ranks[0].key.empty();
  std::string text = cli::wrapped(fmt::format("kolo {}: {} of {} ranks on {} host{}, meeting at {}, {}",
                                              version(), seen.ranks.size(), seen.size, seen.leaders().size(),
                                              seen.leaders().size() == 1 ? "" : "s", seen.store,
                                              keyed ? "with a key that all know" : "without a key"),
                                  cli::kTerminalWidth) +
                     "\n";
  for (const std::string& part : {hosts_text(seen, width), interface_text(seen), gpus_text(seen),
                                  reach_text(seen), pairs_text(seen, width)}) {
    if (!part.empty()) text += part + '\n';
  }
  return text + findings_text(findings);
}

std::string report_json(const Examination& seen, const std::vector<Finding>& findings) {
  nlohmann::json json = {{"kolo", version()},   {"size", seen.size},   {"store", seen.store},
                         {"ranks", seen.ranks}, {"dials", seen.dials}, {"pairs", seen.pairs}};
  json["findings"] = nlohmann::json::array();
  for (const Finding& finding : findings) {
    json["findings"].push_back({{"severity", finding.problem ? "problem" : "warning"},
                                {"what", finding.what},
                                {"fix", finding.fix}});
  }
  return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace kolo::doctor
