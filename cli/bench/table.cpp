#include "bench/table.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "bench/sizes.hpp"

namespace kolo::bench {
namespace {

std::string percent(const Row& kolo, const std::optional<Row>& rewrite) {
  if (!rewrite || kolo.times_us.median <= 0) return "-";
  return fmt::format("{:.0f}%", 100 * rewrite->times_us.median / kolo.times_us.median);
}

std::string format_ratio(double ratio) {
  if (ratio < 0.1) return fmt::format("{:.3f}", ratio);
  if (ratio >= 1e5) return fmt::format("{:.0e}", ratio);
  return fmt::format("{:.{}f}", ratio, ratio < 100 ? 2 : 0);
}

// Arguments may be longer than the column; the JSON has them all.
std::string short_name(const std::string& algorithm) {
  constexpr std::size_t kWidth = 15;
  return algorithm.size() <= kWidth ? algorithm : algorithm.substr(0, kWidth - 2) + "..";
}

std::string bandwidth(const Row& row, double value) {
  return row.what.bytes() == 0 ? "-" : fmt::format("{:.2f}", value);
}

/// Statistics of a peer's times.
std::size_t width_of(const std::string& peer) {
  return std::max<std::size_t>(8, peer.size() + 1);
}

}  // namespace

std::string format_us(double us) {
  if (us < 100) return fmt::format("{:.2f}", us);
  return us < 10000 ? fmt::format("{:.1f}", us) : fmt::format("{:.0f}", us);
}

std::string Table::heading() const {
  const Case& what = heading_.what;
  const Machine& machine = heading_.machine;
  const std::string ranks = fmt::format("{} rank{}", what.ranks, what.ranks == 1 ? "" : "s");
  const std::string reduction = is_reducing(what.kind) ? fmt::format(" {}", kolo::name_of(what.op)) : "";
  const std::string wire =
      what.wire == Wire::native ? "" : fmt::format(", {} on the wire", kolo::name_of(what.wire));
  const std::string tensors = what.tensors > 1 ? fmt::format(", {} tensors at once", what.tensors) : "";
  std::string text =
      fmt::format("# kolo {}: {}, {} over {}, {}{}, {} memory, {}{}{}\n", heading_.version,
                  name_of(what.kind), ranks, heading_.transport, kolo::name_of(what.dtype), reduction,
                  heading_.memory, what.in_place ? "in place" : "out of place", wire, tensors);
  text += fmt::format("# {}, {} cores, {:.0f} GB, {}\n", machine.cpu, machine.cores, machine.memory_GB,
                      machine.kernel);
  if (heading_.neighbours > 0)
    text += fmt::format("# Beside the ranks: {} busy processes.\n", heading_.neighbours);
  if (what.wire != Wire::native) {
    text +=
        fmt::format("# {:>8}  {:<15}{:>9}{:>9}{:>9}{:>9}{:>10}{:>9}{:>10}{:>10}{:>7}\n", "size", "algorithm",
                    "time", "p99", "busbw", "float32", "x float32", "x bound", "error", "error", "#wrong");
    text += fmt::format("# {:>8}  {:<15}{:>9}{:>9}{:>9}{:>9}{:>10}{:>9}{:>10}{:>10}{:>7}\n", "bytes", "",
                        "us", "us", "GB/s", "us", "", "", "rms", "max", "");
    return text;
  }
  if (heading_.peers.empty()) {
    text += fmt::format("# {:>8}{:>11}{:>9}{:>8}  {:<15}{:>8}{:>8}{:>8}{:>8}{:>8}{:>7}{:>7}\n", "size",
                        "count", "type", "redop", "algorithm", "time", "mean", "p99", "algbw", "busbw",
                        "memory", "#wrong");
    text += fmt::format("# {:>8}{:>11}{:>9}{:>8}  {:<15}{:>8}{:>8}{:>8}{:>8}{:>8}{:>7}{:>7}\n", "bytes",
                        "elements", "", "", "", "us", "us", "us", "GB/s", "GB/s", "share", "");
    return text;
  }
  std::string names = fmt::format("# {:>8}  {:<15}{:>8}{:>8}{:>8}{:>7}", "size", "algorithm", "time", "mean",
                                  "p99", "#wrong");
  std::string units = fmt::format("# {:>8}  {:<15}{:>8}{:>8}{:>8}{:>7}", "bytes", "", "us", "us", "us", "");
  for (const auto& peer : heading_.peers) {
    names += fmt::format("{:>{}}{:>7}", peer, width_of(peer), "/kolo");
    units += fmt::format("{:>{}}{:>7}", "us", width_of(peer), "");
  }
  return text + names + "\n" + units + "\n";
}

std::string Table::row(const Row& kolo, const std::optional<Row>& rewrite,
                       const std::vector<std::optional<Row>>& peers) const {
  const Case& what = kolo.what;
  const Summary& times = kolo.times_us;
  const std::string size = format_size(what.bytes());
  const std::string algbw = bandwidth(kolo, kolo.algbw), busbw = bandwidth(kolo, kolo.busbw);
  if (heading_.peers.empty()) {
    return fmt::format("  {:>8}{:>11}{:>9}{:>8}  {:<15}{:>8}{:>8}{:>8}{:>8}{:>8}{:>7}{:>7}\n", size,
                       what.count, kolo::name_of(what.dtype),
                       is_reducing(what.kind) ? kolo::name_of(what.op) : "-", short_name(kolo.algorithm),
                       format_us(times.median), format_us(times.mean), format_us(times.p99), algbw, busbw,
                       percent(kolo, rewrite), kolo.wrong);
  }
  std::string text =
      fmt::format("  {:>8}  {:<15}{:>8}{:>8}{:>8}{:>7}", size, short_name(kolo.algorithm),
                  format_us(times.median), format_us(times.mean), format_us(times.p99), kolo.wrong);
  for (std::size_t i = 0; i < peers.size(); ++i) {
    const auto& peer = peers[i];
    const std::size_t width = width_of(heading_.peers[i]);
    if (!peer) {
      text += fmt::format("{:>{}}{:>7}", "-", width, "-");
      continue;
    }
    const double ratio = times.median > 0 ? peer->times_us.median / times.median : 0;
    text += fmt::format("{:>{}}{:>7}", format_us(peer->times_us.median), width,
                        format_ratio(ratio) + (peer->wrong > 0 ? "!" : "x"));
  }
  return text + "\n";
}

std::string Table::rounded_row(const Row& kolo, const Row& native, double link_mbit) const {
  const double time = kolo.times_us.median;
  const auto ratio = [&](double us) { return time > 0 && us > 0 ? fmt::format("{:.3f}", us / time) : "-"; };
  const double whole = static_cast<double>(kolo.what.bytes()) * kolo.what.tensors * kolo.what.bus_factor();
  const double bound = link_mbit > 0 ? whole * 8 / link_mbit : 0;
  return fmt::format("  {:>8}  {:<15}{:>9}{:>9}{:>9.4f}{:>9}{:>10}{:>9}{:>10.1e}{:>10.1e}{:>7}\n",
                     format_size(kolo.what.bytes()), short_name(kolo.algorithm), format_us(time),
                     format_us(kolo.times_us.p99), kolo.busbw, format_us(native.times_us.median),
                     ratio(native.times_us.median), ratio(bound), kolo.deviation.rms(), kolo.deviation.most(),
                     kolo.wrong + native.wrong);
}

std::string Table::footer(std::uint64_t wrong, double rewrite_gbps, std::uint64_t rewrite_bytes) const {
  std::string text;
  if (rewrite_gbps > 0) {
    text += fmt::format("# Memory: {} ranks rewriting {} each at once load and store {:.2f} GB/s together.\n",
                        heading_.what.ranks, format_size(rewrite_bytes), rewrite_gbps);
  }
  if (rewrite_gbps > 0 && heading_.peers.empty()) {
    text += "# \"memory share\" is the time of such rewriting over kolo's for the same size.\n";
  }
  if (!heading_.peers.empty()) {
    text +=
        "# \"/kolo\" is a peer's time over kolo's: above 1.00x kolo is faster; \"!\" marks wrong results of "
        "the peer.\n";
  }
  if (heading_.what.wire != Wire::native) {
    text +=
        "# \"float32\": kolo's time without the format, in turns with it; \"x bound\": the least time that\n"
        "# float32 takes on such links (--link), over kolo's. Errors are to the exact sum, as shares of the\n"
        "# root mean square of exact sums; all ranks held the same bits, or elements count as wrong.\n";
  }
  text += wrong == 0 ? "# All results are right.\n" : fmt::format("# {} WRONG RESULTS\n", wrong);
  return text;
}

}  // namespace kolo::bench
