#include "support/curve.hpp"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <nlohmann/json.hpp>

namespace support {

Curve smooth(const Curve& curve) {
  const auto reach = static_cast<std::ptrdiff_t>(curve.size() / 60);
  Curve result = curve;
  for (std::ptrdiff_t i = 0; i < std::ssize(curve); ++i) {
    // As many on both sides, so that the ends are not drawn towards the middle.
    const std::ptrdiff_t near = std::min({reach, i, std::ssize(curve) - 1 - i});
    double sum = 0;
    for (std::ptrdiff_t k = i - near; k <= i + near; ++k) sum += curve[static_cast<std::size_t>(k)].value;
    result[static_cast<std::size_t>(i)].value = sum / static_cast<double>(2 * near + 1);
  }
  return result;
}

nlohmann::json to_json(const Curve& curve) {
  auto result = nlohmann::json::array();
  for (const Point& point : curve) result.push_back({point.at, point.value, point.seconds});
  return result;
}

Curve curve_of(const nlohmann::json& json) {
  Curve result;
  for (const nlohmann::json& point : json) {
    result.push_back({point.at(0).get<double>(), point.at(1).get<double>(), point.at(2).get<double>()});
  }
  return result;
}

}  // namespace support
