#include "bench/row.hpp"

#include <algorithm>

namespace kolo::bench {

Row make_row(const std::string& library, const std::string& transport, const std::string& memory,
             const Case& what, const Sample& sample) {
  Row row{library,
          sample.algorithm,
          transport,
          memory,
          what,
          summarize(sample.times_us),
          mean_interval(sample.times_us),
          sample.times_us.size(),
          0,
          0,
          0,
          sample.wrong,
          sample.deviation};
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

}  // namespace kolo::bench
