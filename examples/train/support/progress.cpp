#include "support/progress.hpp"

#include <nlohmann/json.hpp>

namespace support {

void Progress::add_evaluation(double at, double value) {
  if (!evaluations.empty() && evaluations.back().at == at) evaluations.pop_back();
  evaluations.push_back({at, value, training_seconds});
}

void Progress::save(torch::serialize::OutputArchive& archive) const {
  const auto json = nlohmann::json::array({to_json(losses), to_json(rates), to_json(evaluations), steps,
                                           samples, training_seconds, seconds_before, signal});
  archive.write("progress", c10::IValue(json.dump()));
}

void Progress::load(torch::serialize::InputArchive& archive) {
  c10::IValue text;
  archive.read("progress", text);
  const auto json = nlohmann::json::parse(text.toStringRef());
  losses = curve_of(json.at(0));
  rates = curve_of(json.at(1));
  evaluations = curve_of(json.at(2));
  json.at(3).get_to(steps);
  json.at(4).get_to(samples);
  json.at(5).get_to(training_seconds);
  json.at(6).get_to(seconds_before);
  json.at(7).get_to(signal);
}

}  // namespace support
