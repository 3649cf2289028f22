#include "support/results.hpp"

#include <sys/resource.h>

#include <algorithm>
#include <cstddef>
#include <fstream>
#include <nlohmann/json.hpp>
#include <numeric>
#include <stdexcept>

namespace support {

StepTimes step_times(const std::vector<double>& seconds) {
  std::vector<double> steady(seconds.begin() + (seconds.size() > 1 ? 1 : 0), seconds.end());
  const double sum = std::accumulate(steady.begin(), steady.end(), 0.0);
  const auto middle = steady.begin() + static_cast<std::ptrdiff_t>(steady.size() / 2);
  std::ranges::nth_element(steady, middle);
  return {sum / static_cast<double>(steady.size()), *middle};
}

double peak_bytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return 1024.0 * static_cast<double>(usage.ru_maxrss);
}

void write_file(const std::string& path, const std::string& text) {
  std::ofstream file(path);
  file << text;
  file.close();
  if (!file) throw std::runtime_error("cannot write " + path);
}

void write_json(const std::string& path, const nlohmann::json& json) {
  if (!path.empty()) write_file(path, json.dump(1) + '\n');
}

}  // namespace support
