#include "support/other_run.hpp"

#include <fmt/format.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <stdexcept>

namespace support {

OtherRun read_run(const std::string& path, const char* evaluations) {
  if (path.empty()) return {};
  try {
    std::ifstream file(path);
    if (!file) throw std::runtime_error("cannot be read");
    const auto json = nlohmann::json::parse(file);
    return {json.at("ranks").get<int>(), curve_of(json.at("loss")), curve_of(json.at(evaluations))};
  } catch (const std::exception& error) {
    throw std::runtime_error(path + ": " + error.what());
  }
}

std::string ranks_text(int count) {
  return fmt::format("{} {}", count, count == 1 ? "rank" : "ranks");
}

}  // namespace support
