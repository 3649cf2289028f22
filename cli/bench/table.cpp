#include "bench/table.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "text/size.hpp"

namespace kolo::bench {
namespace {

std::string percent(const Row& kolo, const std::optional<Row>& rewrite) {
  if (!rewrite || kolo.time_us <= 0) return "-";
  return fmt::format("{:.0f}%", 100 * rewrite->time_us / kolo.time_us);
}

/// Half of the mean's interval, as a share of it.
std::string uncertainty(const Row& row) {
  const double share =
      row.times_us.mean > 0 ? (row.mean_us.high - row.mean_us.low) / 2 / row.times_us.mean : 0;
  return fmt::format("{:.1f}%", 100 * share);
}

std::string format_ratio(double ratio) {
  if (ratio < 0.1) return fmt::format("{:.3f}", ratio);
  if (ratio >= 1e5) return fmt::format("{:.0e}", ratio);
  return fmt::format("{:.{}f}", ratio, ratio < 100 ? 2 : 0);
}

constexpr std::size_t kNameWidth = 14;

// Arguments may be longer than the column; the JSON has them all.
std::string short_name(const std::string& algorithm) {
  return cli::shortened(algorithm, kNameWidth);
}

std::string bandwidth(const Row& row, double value) {
  return row.what.bytes() == 0 ? "-" : fmt::format("{:.2f}", value);
}

const cli::Column kSize{"size", "", 11};
const cli::Column kAlgorithm{"algorithm", "", kNameWidth + 2, true};
const cli::Column kTime{"time", "us", 8};
const cli::Column kUncertainty{"mean", "+-", 8, false, 5};
const cli::Column kWrong{"wrong", "", 6};

std::vector<cli::Column> rounded_columns() {
  return {kSize,
          kAlgorithm,
          kTime,
          {"p99", "us", 8, false, 3},
          {"busbw", "GB/s", 8, false, 2},
          {"float32", "us", 8},
          {"float32", "/time", 8},
          {"bound", "/time", 8},
          {"error", "rms", 9},
          {"error", "max", 9, false, 1},
          kWrong};
}

std::vector<cli::Column> plain_columns() {
  return {kSize,
          {"count", "elements", 11, false, 2},
          {"type", "", 9, false, 3},
          {"redop", "", 8, false, 3},
          kAlgorithm,
          kTime,
          {"mean", "us", 8},
          kUncertainty,
          {"p99", "us", 8},
          {"algbw", "GB/s", 8},
          {"busbw", "GB/s", 8},
          {"memory", "share", 7, false, 1},
          kWrong};
}

/// Without room for their times, peers keep the ratios.
std::vector<cli::Column> compared_columns(const std::vector<std::string>& peers) {
  std::vector<cli::Column> columns = {
      kSize, kAlgorithm, kTime, {"mean", "us", 8, false, 2}, kUncertainty, {"p99", "us", 8, false, 4},
      kWrong};
  columns[1].detail = 1;
  for (const std::string& peer : peers) {
    const std::size_t width = std::max<std::size_t>(8, peer.size() + 1);
    columns.push_back({peer, "us", width, false, 3});
    columns.push_back({peer, "/kolo", width});
  }
  return columns;
}

std::vector<cli::Column> columns_of(const Heading& heading) {
  if (heading.what.wire != Wire::native) return rounded_columns();
  return heading.peers.empty() ? plain_columns() : compared_columns(heading.peers);
}

}  // namespace

Table::Table(Heading heading)
    : heading_(std::move(heading)), layout_(columns_of(heading_), cli::table_width(heading_.wide)) {}

std::string format_us(double us) {
  if (us < 100) return fmt::format("{:.2f}", us);
  return us < 10000 ? fmt::format("{:.1f}", us) : fmt::format("{:.0f}", us);
}

std::string Table::heading() const {
  const Case& what = heading_.what;
  const Machine& machine = heading_.machine;
  const std::string ranks = fmt::format("{} rank{}", what.ranks, what.ranks == 1 ? "" : "s");
  const std::string reduction = what.reduction() ? fmt::format(" {}", kolo::name_of(what.op)) : "";
  const std::string wire =
      what.wire == Wire::native ? "" : fmt::format(", {} on the wire", kolo::name_of(what.wire));
  const std::string steps = what.steps > 1 ? fmt::format(", {} calls a barrier", what.steps) : "";
  const std::string tensors = what.tensors > 1 ? fmt::format(", {} tensors at once", what.tensors) : "";
  std::string text = cli::wrapped(
      fmt::format("kolo {}: {}, {} over {}, {}{}, {} memory, {}{}{}{}", heading_.version, name_of(what.kind),
                  ranks, heading_.transport, kolo::name_of(what.dtype), reduction, heading_.memory,
                  what.in_place ? "in place" : "out of place", wire, tensors, steps),
      cli::kTerminalWidth, "# ", "# ");
  text += cli::wrapped(fmt::format("{}, {} cores, {:.0f} GB, {}", machine.cpu, machine.cores,
                                   machine.memory_GB, machine.kernel),
                       cli::kTerminalWidth, "# ", "# ");
  if (what.compute_ms > 0)
    text += fmt::format("# Times are those of {:g} ms of computing with the call that follows.\n",
                        what.compute_ms);
  const auto& [neighbours, blip] = heading_.neighbours;
  if (neighbours > 0)
    text += fmt::format("# Beside the ranks: {} busy process{}{}.\n", neighbours, neighbours == 1 ? "" : "es",
                        blip.second > 0 ? fmt::format(", {} us of {}", blip.first, blip.second) : "");
  return text + layout_.heading();
}

std::string Table::row(const Row& kolo, const std::optional<Row>& rewrite,
                       const std::vector<std::optional<Row>>& peers) const {
  const Case& what = kolo.what;
  const Summary& times = kolo.times_us;
  const std::string size = cli::format_size(what.bytes()), name = short_name(kolo.algorithm);
  const std::string time = format_us(kolo.time_us), mean = format_us(times.mean), p99 = format_us(times.p99);
  const std::string wrong = fmt::format("{}", kolo.wrong);
  if (heading_.peers.empty()) {
    return layout_.row({size, fmt::format("{}", what.count), std::string(kolo::name_of(what.dtype)),
                        std::string(what.reduction() ? kolo::name_of(what.op) : "-"), name, time, mean,
                        uncertainty(kolo), p99, bandwidth(kolo, kolo.algbw), bandwidth(kolo, kolo.busbw),
                        percent(kolo, rewrite), wrong});
  }
  cli::Cells cells = {size, name, time, mean, uncertainty(kolo), p99, wrong};
  for (const auto& peer : peers) {
    if (!peer) {
      cells.insert(cells.end(), 2, "-");
      continue;
    }
    const double ratio = kolo.time_us > 0 ? peer->time_us / kolo.time_us : 0;
    cells.push_back(format_us(peer->time_us));
    cells.push_back(format_ratio(ratio) + (peer->wrong > 0 ? "!" : "x"));
  }
  return layout_.row(cells);
}

std::string Table::rounded_row(const Row& kolo, const Row& native, double link_mbit) const {
  const double time = kolo.time_us;
  const auto ratio = [&](double us) { return time > 0 && us > 0 ? fmt::format("{:.3f}", us / time) : "-"; };
  const double whole = static_cast<double>(kolo.what.bytes()) * kolo.what.tensors * kolo.what.bus_factor();
  const double bound = link_mbit > 0 ? whole * 8 / link_mbit : 0;
  return layout_.row(
      {cli::format_size(kolo.what.bytes()), short_name(kolo.algorithm), format_us(time),
       format_us(kolo.times_us.p99), fmt::format("{:.4f}", kolo.busbw), format_us(native.time_us),
       ratio(native.time_us), ratio(bound), fmt::format("{:.1e}", kolo.deviation.rms()),
       fmt::format("{:.1e}", kolo.deviation.most()), fmt::format("{}", kolo.wrong + native.wrong)});
}

std::string Table::footer(std::uint64_t wrong, double rewrite_gbps, std::uint64_t rewrite_bytes) const {
  std::string text;
  if (rewrite_gbps > 0) {
    text += fmt::format("# Memory: {} ranks rewriting {} each at once load and store {:.2f} GB/s.\n",
                        heading_.what.ranks, cli::format_size(rewrite_bytes), rewrite_gbps);
  }
  if (rewrite_gbps > 0 && heading_.peers.empty()) {
    text += "# \"memory share\" is the time of such rewriting over kolo's, for the same size.\n";
  }
  if (!heading_.peers.empty()) {
    text +=
        "# \"/kolo\" is a peer's time over kolo's: above 1.00x kolo is faster. \"!\" marks\n"
        "# wrong results of the peer.\n";
  }
  if (heading_.what.wire != Wire::native) {
    text +=
        "# \"float32\" is kolo's time without the format, in turns with it, and over the\n"
        "# time with it; \"bound\" the least time that float32 takes on such links\n"
        "# (--link). Errors are to the exact sum, as shares of the root mean square of\n"
        "# exact sums. All ranks held the same bits, or elements count as wrong.\n";
  }
  text += wrong == 0 ? "# All results are right.\n" : fmt::format("# {} WRONG RESULTS\n", wrong);
  return text;
}

}  // namespace kolo::bench
