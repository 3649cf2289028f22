#include "pipeline/split_model.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include "kolo/train/slice.hpp"

namespace kolo::train {
namespace {

int stage_of_layer(const std::vector<std::int64_t>& borders, std::int64_t layer) {
  return static_cast<int>(std::ranges::upper_bound(borders, layer) - borders.begin());
}

}  // namespace

std::vector<std::int64_t> even_borders(std::int64_t layers, int stages) {
  std::vector<std::int64_t> borders;
  for (int stage = 1; stage < stages; ++stage) borders.push_back(slice_of(layers, stage, stages).begin);
  return borders;
}

std::string problem_of_borders(const std::vector<std::int64_t>& borders, std::int64_t layers, int stages) {
  if (layers < stages) {
    return std::to_string(stages) + " stages are more than the " + std::to_string(layers) +
           " layers of the model";
  }
  if (borders.size() + 1 != static_cast<std::size_t>(stages)) {
    return std::to_string(borders.size()) + " borders do not make " + std::to_string(stages) + " stages";
  }
  std::int64_t before = 0;
  for (const std::int64_t border : borders) {
    if (border <= before || border >= layers) {
      return "a border of " + std::to_string(border) + " after " + std::to_string(before) +
             " leaves a stage of the " + std::to_string(layers) + " layers empty";
    }
    before = border;
  }
  return {};
}

std::vector<PipelineStage> stages_of(const torch::nn::Sequential& layers,
                                     const std::vector<std::int64_t>& borders, const PipelineShape& shape,
                                     int rank) {
  const auto names = layers->named_children();
  std::vector<torch::nn::Sequential> parts(static_cast<std::size_t>(shape.chunks));
  std::int64_t index = 0;
  for (const torch::nn::AnyModule& layer : *layers) {
    const int stage = stage_of_layer(borders, index);
    if (stage % shape.ranks == rank) {
      parts[static_cast<std::size_t>(stage / shape.ranks)]->push_back(
          names[static_cast<std::size_t>(index)].key(), layer);
    }
    ++index;
  }
  return {parts.begin(), parts.end()};
}

std::string problem_of_shared(const torch::nn::Sequential& layers, const std::vector<std::int64_t>& borders,
                              const std::vector<PipelineTie>& ties) {
  std::map<const c10::TensorImpl*, std::pair<int, std::string>> first_use;
  std::int64_t index = 0;
  for (const auto& child : layers->named_children()) {
    const int stage = stage_of_layer(borders, index++);
    for (const auto& parameter : child.value()->named_parameters()) {
      const std::string name = child.key() + '.' + parameter.key();
      const auto [found, is_new] =
          first_use.emplace(parameter.value().unsafeGetTensorImpl(), std::pair(stage, name));
      const auto& [other_stage, other] = found->second;
      if (is_new || other_stage == stage) continue;
      const auto names_it = [&, &other = other](const PipelineTie& tie) {
        return tie.first == other && tie.last == name;
      };
      if (std::ranges::none_of(ties, names_it)) {
        return "'" + other + "' and '" + name + "' are one parameter, in stages " +
               std::to_string(other_stage) + " and " + std::to_string(stage) +
               ": name it in `tie`, which serves the first and the last stage";
      }
    }
  }
  return {};
}

}  // namespace kolo::train
