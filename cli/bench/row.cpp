#include "bench/row.hpp"

#include <algorithm>
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

Row make_row(const std::string& library, const std::string& transport, const std::string& memory,
             const Case& what, const Sample& sample) {
  Row row{.library = library,
          .algorithm = sample.algorithm,
          .transport = transport,
          .memory = memory,
          .what = what,
          .times_us = summarize(sample.times_us),
          .mean_us = mean_interval(sample.times_us),
          .iterations = sample.times_us.size(),
          .wrong = sample.wrong,
          .deviation = sample.deviation};
  const double bytes = static_cast<double>(what.bytes()) * what.tensors;
  row.time_us = what.steps > 1 ? row.times_us.mean : row.times_us.median;
  row.algbw = gigabytes_per_second(bytes, row.time_us);
  row.busbw = row.algbw * what.bus_factor();
  return row;
}

void merge(std::vector<Sample>& into, const std::vector<Sample>& more) {
  for (const Sample& sample : more) {
    const auto same = std::find_if(into.begin(), into.end(),
                                   [&](const Sample& s) { return s.algorithm == sample.algorithm; });
    if (same == into.end()) {
      into.push_back(sample);
    } else {
      same->times_us.insert(same->times_us.end(), sample.times_us.begin(), sample.times_us.end());
      same->wrong += sample.wrong;
      same->deviation += sample.deviation;
    }
  }
}

const Sample* best(const std::vector<Sample>& samples) {
  const auto median = [](const Sample& sample) { return summarize(sample.times_us).median; };
  const auto found = std::min_element(samples.begin(), samples.end(), [&](const Sample& a, const Sample& b) {
    return median(a) < median(b);
  });
  return found == samples.end() ? nullptr : &*found;
}

std::string row_line(const Row& row) {
  nlohmann::ordered_json json;
  const bool is_call = !row.what.rewrites;
  json["type"] = is_call ? "result" : row.library;
  json["library"] = row.library;
  if (!row.version.empty()) json["version"] = row.version;
  if (!row.settings.empty()) json["settings"] = row.settings;
  json["collective"] = is_call ? row.what.name() : row.library;
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
  json["reduction"] = row.what.reduction() ? kolo::name_of(row.what.op) : "none";
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
  json["collective"] = what.name();
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
