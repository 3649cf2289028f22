// What a training run leaves behind: the times of its steps, and files.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace support {

struct StepTimes {
  double mean = 0, median = 0;  ///< seconds
};

/// Of all steps but the first, which makes memory and orders the buckets.
StepTimes step_times(const std::vector<double>& seconds);

/// The most memory that this process has had.
double peak_bytes();

/// Throws std::runtime_error that names the file if it cannot be written.
void write_file(const std::string& path, const std::string& text);

/// The same of JSON; writes nothing where `path` is empty.
void write_json(const std::string& path, const nlohmann::json& json);

}  // namespace support
