// A quantity over the course of a training run.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <vector>

namespace support {

struct Point {
  double at;  ///< epoch or step
  double value;
  double seconds = 0;  ///< of training until then, without evaluation
};
using Curve = std::vector<Point>;

/// Means over neighbours, for the eye: a loss jumps from batch to batch.
Curve smooth(const Curve& curve);

/// [[at, value, seconds], ...]
nlohmann::json to_json(const Curve& curve);
/// Throws nlohmann::json::exception for other JSON than that of to_json().
Curve curve_of(const nlohmann::json& json);

}  // namespace support
