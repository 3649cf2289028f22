#include "doctor/report.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <set>

#include "base/config.hpp"

namespace kolo::doctor {
namespace {

/// Descriptors of a rank besides one for each peer and a second one for each peer of its host.
constexpr std::uint64_t kOwnFiles = 20;
/// Timelines and logs of hosts whose clocks differ by more do not line up.
constexpr double kClockError = 0.1;
/// Limits, as multiples of the median of all pairs.
constexpr double kSlow = 0.5;
constexpr double kFar = 4;

/// Where the ports are on which ranks, and the store of kolo run, listen.
std::string listening_ports() {
  const PortRange& ports = config().ports;
  return ports.last == 0 ? "net.ipv4.ip_local_port_range"
                         : fmt::format("KOLO_PORTS={}-{}", ports.first, ports.last);
}

class Judge {
 public:
  explicit Judge(const Examination& examination) : seen_(examination) {}

  std::vector<Finding> all() {
    absent();
    versions();
    keys();
    reach();
    interfaces();
    pairs();
    hosts();
    std::stable_partition(found_.begin(), found_.end(),
                          [](const Finding& finding) { return finding.problem; });
    return std::move(found_);
  }

 private:
  void problem(std::string what, std::string fix) {
    found_.push_back({true, std::move(what), std::move(fix)});
  }
  void warning(std::string what, std::string fix) {
    found_.push_back({false, std::move(what), std::move(fix)});
  }

  /// The hosts by the value that their first rank reports, as in "0.1.0 (a, b)"; one entry if all agree.
  std::map<std::string, std::vector<std::string>> by(const std::function<std::string(int)>& value) const {
    std::map<std::string, std::vector<std::string>> groups;
    for (const int rank : seen_.leaders()) groups[value(rank)].push_back(seen_.host_name(rank));
    return groups;
  }
  static std::string listed(const std::map<std::string, std::vector<std::string>>& groups) {
    std::vector<std::string> parts;
    for (const auto& [value, hosts] : groups)
      parts.push_back(fmt::format("{} ({})", value, fmt::join(hosts, ", ")));
    return fmt::format("{}", fmt::join(parts, ", "));
  }

  void absent() {
    std::set<int> missing;
    for (int rank = 0; rank < seen_.size; ++rank) missing.insert(rank);
    for (const Facts& facts : seen_.ranks) missing.erase(facts.rank);
    if (missing.empty()) return;
    std::set<std::string> hosts;
    for (const int rank : missing) {
      if (!seen_.hosts.empty()) hosts.insert(seen_.host_name(rank));
    }
    problem(fmt::format("rank{} {} of {}{} did not come to the store at {}", missing.size() == 1 ? "" : "s",
                        fmt::join(missing, ", "), seen_.size,
                        hosts.empty() ? "" : fmt::format(" (on {})", fmt::join(hosts, ", ")), seen_.store),
            fmt::format("see what these ranks print; open that port from their hosts (under kolo run it is "
                        "another one in each job, of {}), or name another address with KOLO_STORE (kolo run: "
                        "--store-address)",
                        listening_ports()));
  }

  void versions() {
    const auto groups = by([&](int rank) { return seen_.of(rank).version; });
    if (groups.size() > 1)
      problem("hosts have different versions of kolo: " + listed(groups), "install one everywhere");
  }

  void keys() {
    std::set<std::string> keys;
    for (const Facts& facts : seen_.ranks) keys.insert(facts.key);
    if (keys.size() > 1) problem("ranks hold different keys", "give all the same KOLO_KEY");
    if (keys.size() == 1 && keys.begin()->empty() && seen_.leaders().size() > 1) {
      warning("there is no key: each process that reaches these ports can join the job",
              "set KOLO_KEY to the same random text for all ranks (kolo run makes one)");
    }
  }

  void reach() {
    for (const Dial& dial : seen_.dials) {
      if (dial.outcome == "ok") continue;
      const std::string way = fmt::format("{} cannot reach {}", seen_.name(dial.from), seen_.name(dial.to));
      const std::string open =
          fmt::format(", or no route leads there: open TCP from {} to {}, its ports of {}",
                      seen_.host_name(dial.from), seen_.host_name(dial.to), listening_ports());
      if (dial.outcome == "silent") {
        problem(fmt::format("{}: no answer ({})", way, dial.why), "a firewall drops what it sends" + open);
      } else if (dial.outcome == "no route") {
        problem(fmt::format("{}: {}", way, dial.why), "a firewall rejects it (firewalld answers so)" + open);
      } else if (dial.outcome == "refused") {
        problem(fmt::format("{}: refused ({})", way, dial.why),
                "a firewall rejects it, or another host answers at that address: compare KOLO_INTERFACE on "
                "both, and addresses that several hosts have (docker0, virbr0)");
      } else {
        problem(fmt::format("{}: {}", way, dial.why), "name an interface that both have with KOLO_INTERFACE");
      }
    }
  }

  void interfaces() {
    const auto leaders = seen_.leaders();
    if (leaders.size() < 2) return;
    const auto known = [&](const std::function<std::string(const Card&)>& value) {
      auto groups = by([&](int rank) { return value(seen_.card_to_others(rank)); });
      groups.erase("");
      groups.erase("0");
      return groups;
    };
    const auto mtus = known([](const Card& card) { return std::to_string(card.mtu); });
    if (mtus.size() > 1) {
      warning("hosts send packets of different sizes: " + listed(mtus),
              "give all interfaces of this network the same MTU; where it is too large for what lies "
              "between, long messages hang");
    }
    const auto families = known([](const Card& card) { return card.family; });
    if (families.size() > 1) {
      warning("hosts reach others over different families: " + listed(families),
              "give every host an address of the same family, or set KOLO_INTERFACE");
    }
  }

  static double median(std::vector<double> values) {
    std::sort(values.begin(), values.end());
    return values[values.size() / 2];
  }

  void pairs() {
    std::vector<double> bandwidths, latencies;
    for (const Pair& pair : seen_.pairs) {
      if (!pair.error.empty()) {
        problem(fmt::format("{} and {} connect, but do not work together: {}", seen_.name(pair.from),
                            seen_.name(pair.to), pair.error),
                "look for a smaller MTU between them (ping -M do -s 1472), and for what changes packets on "
                "the way");
        continue;
      }
      bandwidths.insert(bandwidths.end(), {pair.there, pair.back});
      latencies.push_back(pair.latency_us);
      if (seen_.of(pair.from).place != seen_.of(pair.to).place && std::abs(pair.clock_s) > kClockError) {
        warning(fmt::format("the clock of {} is {:.3g} s {} that of {}", seen_.name(pair.to),
                            std::abs(pair.clock_s), pair.clock_s > 0 ? "ahead of" : "behind",
                            seen_.name(pair.from)),
                "run chrony or systemd-timesyncd on both: logs and timelines do not line up");
      }
    }
    if (seen_.pairs.size() < 3 || latencies.empty()) return;
    const double usual = median(bandwidths);
    const double near = median(latencies);
    for (const Pair& pair : seen_.pairs) {
      if (!pair.error.empty()) continue;
      slow(pair.from, pair.to, pair.there, usual);
      slow(pair.to, pair.from, pair.back, usual);
      if (pair.latency_us > kFar * near + 100) {
        warning(fmt::format("{} and {} are {:.0f} us apart, others {:.0f} us", seen_.name(pair.from),
                            seen_.name(pair.to), pair.latency_us, near),
                "look what lies between them; 'kolo tune' lets kolo measure this network and choose for it");
      }
    }
  }

  void slow(int from, int to, double bandwidth, double usual) {
    if (bandwidth >= kSlow * usual) return;
    warning(
        fmt::format("{} to {} is slow: {:.3g} MB/s, others {:.3g} MB/s", seen_.name(from), seen_.name(to),
                    bandwidth / 1e6, usual / 1e6),
        "look at that link's speed (ethtool) and load; 'kolo tune --only-bandwidths' lets rings avoid it");
  }

  void hosts() {
    for (const int leader : seen_.leaders()) {
      const Facts& facts = seen_.of(leader);
      const auto ranks = seen_.neighbours(leader);
      const auto wanted = kOwnFiles + 2 * static_cast<std::uint64_t>(seen_.size);
      const auto here = [&](bool problem, std::string what, std::string fix) {
        host_problem(problem, seen_.host_name(leader), std::move(what), std::move(fix));
      };
      if (facts.files < wanted) {
        here(true,
             fmt::format("a process may open {} files, and a rank of {} needs about {}", facts.files,
                         seen_.size, wanted),
             fmt::format("raise the limit: ulimit -n {} (LimitNOFILE= in a service)",
                         std::max<std::uint64_t>(wanted, 4096)));
      }
      const Cores cores = seen_.cores(leader);
      const auto count = static_cast<std::size_t>(cores.count());
      if (ranks.size() > count && count < cores.set.count()) {
        here(false,
             fmt::format("{} ranks share {} core{}: a control group's quota is {:.6g}", ranks.size(), count,
                         count == 1 ? "" : "s", cores.quota),
             "raise the container's CPU limit (cpu.max), or start fewer ranks");
      } else if (ranks.size() > count) {
        here(false, fmt::format("{} ranks share {} core{}", ranks.size(), count, count == 1 ? "" : "s"),
             "start as many ranks as there are cores, or fewer with several threads each");
      } else if (const auto bound_together = seen_.oversubscribed(leader); !bound_together.empty()) {
        here(false, fmt::format("ranks {} are bound to the same cores", fmt::join(bound_together, ", ")),
             "bind each to cores of its own, or none");
      }
      if (!facts.memfd.empty()) {
        here(true, "there is no shared memory: memfd_create: " + facts.memfd,
             "allow memfd_create in the container's seccomp profile; until then KOLO_TRANSPORTS=tcp");
      }
      if (!facts.direct_read.empty()) {
        here(false, "ranks may not read each other's memory: process_vm_readv: " + facts.direct_read,
             "sysctl kernel.yama.ptrace_scope=0, or in a container --cap-add SYS_PTRACE; until then memory "
             "that kolo did not give out is copied once more");
      }
      if (facts.memfd.empty() && !facts.huge_pages.empty()) {
        here(false, "shared memory gets no huge pages: " + facts.huge_pages,
             "large sums are faster with them: Linux 6.1 grants them where memory in such pieces is free, "
             "older ones after echo advise > /sys/kernel/mm/transparent_hugepage/shmem_enabled (as root)");
      }
    }
  }

  /// Hosts with the same fault share a finding.
  void host_problem(bool problem, const std::string& host, std::string what, std::string fix) {
    for (Finding& finding : found_) {
      if (finding.fix != fix || !finding.what.ends_with(": " + what)) continue;
      finding.what.insert(finding.what.size() - what.size() - 2, ", " + host);
      return;
    }
    found_.push_back({problem, host + ": " + what, std::move(fix)});
  }

  const Examination& seen_;
  std::vector<Finding> found_;
};

}  // namespace

std::vector<Finding> judge(const Examination& examination) {
  return Judge(examination).all();
}

}  // namespace kolo::doctor
