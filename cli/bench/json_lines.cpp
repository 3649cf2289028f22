#include "bench/json_lines.hpp"

#include <cmath>
#include <nlohmann/json.hpp>

namespace kolo::bench {
namespace {

// Nanoseconds are as fine as anything here is known.
double rounded(double value) {
  return std::round(value * 1000) / 1000;
}

// Six digits that count: a few bytes in a millisecond are a bandwidth, too.
double six_digits(double value) {
  if (value == 0 || !std::isfinite(value)) return value;
  const double scale = std::pow(10, 5 - std::floor(std::log10(std::abs(value))));
  return std::round(value * scale) / scale;
}

}  // namespace

std::string machine_line(const Machine& machine, const std::string& version,
                         const Neighbourhood& neighbours) {
  nlohmann::ordered_json json;
  json["type"] = "machine";
  json["kolo"] = version;
  json["cpu"] = machine.cpu;
  json["cores"] = machine.cores;
  json["memory_GB"] = rounded(machine.memory_GB);
  json["kernel"] = machine.kernel;
  json["neighbours"] = neighbours.count;
  if (neighbours.blip_us.second > 0) json["blip_us"] = neighbours.blip_us;
  return json.dump();
}

std::string row_line(const Row& row) {
  nlohmann::ordered_json json;
  json["type"] = row.what.kind == Kind::rewrite ? "rewrite" : "result";
  json["library"] = row.library;
  if (!row.version.empty()) json["version"] = row.version;
  if (!row.settings.empty()) json["settings"] = row.settings;
  json["collective"] = name_of(row.what.kind);
  json["algorithm"] = row.algorithm;
  json["transport"] = row.transport;
  json["memory"] = row.memory;
  json["in_place"] = row.what.in_place;
  json["ranks"] = row.what.ranks;
  json["bytes"] = row.what.bytes();
  json["count"] = row.what.count;
  json["tensors"] = row.what.tensors;
  json["compute_ms"] = row.what.compute_ms;
  json["calls_a_barrier"] = row.what.steps;
  json["dtype"] = kolo::name_of(row.what.dtype);
  json["reduction"] = is_reducing(row.what.kind) ? kolo::name_of(row.what.op) : "none";
  json["median_us"] = rounded(row.times_us.median);
  json["mean_us"] = rounded(row.times_us.mean);
  json["mean_low_us"] = rounded(row.mean_us.low);
  json["mean_high_us"] = rounded(row.mean_us.high);
  json["min_us"] = rounded(row.times_us.min);
  json["p95_us"] = rounded(row.times_us.p95);
  json["p99_us"] = rounded(row.times_us.p99);
  json["iterations"] = row.iterations;
  json["algbw_GBps"] = six_digits(row.algbw);
  json["busbw_GBps"] = six_digits(row.busbw);
  json["wrong"] = row.wrong;
  if (row.what.wire != Wire::native) {
    json["wire"] = kolo::name_of(row.what.wire);
    json["error_rms"] = row.deviation.rms();
    json["error_max"] = row.deviation.most();
  }
  return json.dump();
}

std::string choice_line(const Case& what, const std::string& choice, const std::string& fastest,
                        const Ratio& ratio) {
  nlohmann::ordered_json json;
  json["type"] = "choice";
  json["collective"] = name_of(what.kind);
  json["ranks"] = what.ranks;
  json["bytes"] = what.bytes();
  json["choice"] = choice;
  json["fastest"] = fastest;
  json["regret"] = rounded(ratio.ratio - 1);
  json["regret_low"] = rounded(ratio.low - 1);
  json["regret_high"] = rounded(ratio.high - 1);
  return json.dump();
}

}  // namespace kolo::bench
