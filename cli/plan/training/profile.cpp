#include "plan/training/profile.hpp"

#include <fmt/format.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "text/refuse.hpp"

namespace kolo::plan {
namespace {

using Json = nlohmann::json;

/// Doubles hold whole numbers up to here exactly, and nothing real is larger.
constexpr double kLargestNumber = 1e15;
constexpr std::size_t kMostLayers = 2000;

/// As it stands in the file, or the beginning of it.
std::string quoted(const Json& value) {
  constexpr std::size_t kLongest = 40;
  const std::string text = value.dump(-1, ' ', false, Json::error_handler_t::replace);
  return text.size() <= kLongest ? text : text.substr(0, kLongest) + "...";
}

const Json& member(const Json& object, const char* key, const std::string& where) {
  const auto found = object.find(key);
  if (found == object.end()) cli::refuse("{}: \"{}\" is missing", where, key);
  return *found;
}

std::string text_of(const Json& object, const char* key, const std::string& where) {
  const Json& value = member(object, key, where);
  if (!value.is_string()) cli::refuse("{}: \"{}\" is {}, but must be a text", where, key, quoted(value));
  return value.get<std::string>();
}

double number_of(const Json& object, const char* key, const std::string& where) {
  const Json& value = member(object, key, where);
  const double number = value.is_number() ? value.get<double>() : -1;
  if (!(number >= 0 && number <= kLargestNumber)) {
    cli::refuse("{}: \"{}\" is {}, but must be a number from 0 to 10^15", where, key, quoted(value));
  }
  return number;
}

double number_or_zero(const Json& object, const char* key, const std::string& where) {
  return object.contains(key) ? number_of(object, key, where) : 0;
}

std::uint64_t count_of(const Json& object, const char* key, const std::string& where) {
  const double number = number_of(object, key, where);
  if (number != std::floor(number)) {
    cli::refuse("{}: \"{}\" is {}, but must be a whole number", where, key, quoted(object.at(key)));
  }
  return static_cast<std::uint64_t>(number);
}

ProfiledLayer layer_of(const Json& object, std::size_t place, const std::string& source) {
  std::string where = fmt::format("{}: layer {}", source, place);
  if (!object.is_object()) cli::refuse("{}: it is {}, but must be an object", where, quoted(object));
  ProfiledLayer layer;
  layer.name = text_of(object, "name", where);
  where += fmt::format(" (\"{}\")", layer.name);
  layer.parameters = count_of(object, "parameters", where);
  layer.activation_bytes = number_of(object, "activation_bytes", where);
  layer.output_bytes = number_of(object, "output_bytes", where);
  layer.forward = 1e-3 * number_of(object, "forward_ms", where);
  layer.backward = 1e-3 * number_of(object, "backward_ms", where);
  layer.optimizer = 1e-3 * number_or_zero(object, "optimizer_ms", where);
  layer.tensor_sums = number_or_zero(object, "tensor_sums", where);
  return layer;
}

Json parse_json(std::string_view text, const std::string& source) {
  try {
    return Json::parse(text);
  } catch (const Json::exception& error) {
    cli::refuse("{}: this is no JSON ({}); JSON has no NaN and no Infinity", source, error.what());
  }
}

}  // namespace

ModelProfile parse_profile(std::string_view text, const std::string& source) {
  const Json json = parse_json(text, source);
  if (!json.is_object())
    cli::refuse("{}: the profile of a model is an object with name, batch and layers", source);
  ModelProfile profile;
  profile.name = text_of(json, "name", source);
  profile.batch = count_of(json, "batch", source);
  if (profile.batch == 0) cli::refuse("{}: \"batch\" is 0, but a batch has one sample or more", source);
  const Json& layers = member(json, "layers", source);
  if (!layers.is_array()) cli::refuse("{}: \"layers\" is {}, but must be a list", source, quoted(layers));
  if (layers.empty()) cli::refuse("{}: \"layers\" is empty: a model has one layer or more", source);
  if (layers.size() > kMostLayers)
    cli::refuse("{}: {} layers are more than {}", source, layers.size(), kMostLayers);
  for (const Json& layer : layers) profile.layers.push_back(layer_of(layer, profile.layers.size(), source));
  return profile;
}

ModelProfile read_profile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) cli::refuse("{}: the profile of a model cannot be opened", path);
  std::ostringstream text;
  if (!(text << file.rdbuf())) cli::refuse("{}: the profile of a model is empty or cannot be read", path);
  return parse_profile(text.str(), path);
}

}  // namespace kolo::plan
