// JSON that bench_train reads and writes: profiles of layers, and the result of a subcommand.
#pragma once

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <exception>
#include <fstream>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <vector>

namespace kolo::bench {

/// Returns read(JSON of the file). Throws std::runtime_error if the file holds no `what`.
template <typename Read>
auto read_json(const std::string& path, const char* what, Read read) {
  std::ifstream file(path);
  try {
    return read(nlohmann::json::parse(file));
  } catch (const std::exception& error) {
    throw std::runtime_error(fmt::format("cannot read a {} from {}: {}", what, path, error.what()));
  }
}

/// The layers of a profile, each as `layer_of` reads it.
template <typename Layer>
std::vector<Layer> read_layers(const std::string& path, Layer (*layer_of)(const nlohmann::json&)) {
  return read_json(path, "profile", [layer_of](const nlohmann::json& profile) {
    std::vector<Layer> layers;
    for (const nlohmann::json& layer : profile.at("layers")) layers.push_back(layer_of(layer));
    if (layers.empty()) throw std::runtime_error("it has no layers");
    return layers;
  });
}

/// A member in milliseconds, as seconds.
inline double seconds_at(const nlohmann::json& layer, const char* key) {
  return 1e-3 * layer.at(key).get<double>();
}

/// --json and --output of a subcommand.
class JsonOutput {
 public:
  /// The options belong to `command`; this object outlives it.
  void add_to(CLI::App& command);
  /// Opens the file of --output before the work, and throws std::runtime_error if it cannot be written.
  void open();
  /// Writes the object to the file, and prints it if --json was given. Returns whether it was printed.
  bool write(const nlohmann::json& object);

 private:
  bool prints_ = false;
  std::string path_;
  std::ofstream file_;
};

}  // namespace kolo::bench
