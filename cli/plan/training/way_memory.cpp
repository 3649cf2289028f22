#include "plan/training/way_memory.hpp"

#include <algorithm>

namespace kolo::plan {
namespace {

/// Kept for one micro-batch.
double activations_on_rank(const Job& job, const Way& way, std::size_t index) {
  const std::vector<ProfiledLayer>& layers = job.profile.layers;
  const ProfiledLayer& layer = layers[index];
  double kept = layer.activation_bytes;
  if (way.tensor > 1 && layer.is_divisible()) {
    const double input = index == 0 ? 0 : std::min(kept, layers[index - 1].output_bytes);
    kept = input + (kept - input) / way.tensor;
  }
  return kept * job.batches(way);
}

/// The most that so many layers one after the other have.
double most_in_a_row(const std::vector<double>& of_layers, std::size_t count) {
  double most = 0, sum = 0;
  for (std::size_t i = 0; i < of_layers.size(); ++i) {
    sum += of_layers[i] - (i >= count ? of_layers[i - count] : 0);
    most = std::max(most, sum);
  }
  return most;
}

WayMemory memory_of_stage(const Job& job, const Way& way, int stage) {
  constexpr std::size_t kUnitsOfParameters = 2, kUnitsOfGradients = 3;
  double parameters = 0, activations = 0;
  std::vector<double> units;
  for (const std::size_t i : way.layers_of(stage, job.profile.layers.size())) {
    units.push_back(parameters_on_rank(job.profile, way, i));
    parameters += units.back();
    activations += activations_on_rank(job, way, i);
  }
  const double part = parameters / way.data;
  const bool divides_parameters = way.divided == Divided::parameters;
  const bool divides_gradients = divides_parameters || way.divided == Divided::gradients;
  WayMemory memory;
  memory.parameters =
      kBytesPerNumber * (divides_parameters ? part + most_in_a_row(units, kUnitsOfParameters) : parameters);
  memory.gradients =
      kBytesPerNumber * (divides_gradients ? part + most_in_a_row(units, kUnitsOfGradients) : parameters);
  memory.optimizer = job.state_per_parameter * (way.divided == Divided::nothing ? parameters : part);
  memory.activations = activations * std::min(way.stages - stage, way.micro_batches);
  return memory;
}

}  // namespace

double parameters_on_rank(const ModelProfile& profile, const Way& way, std::size_t index) {
  const ProfiledLayer& layer = profile.layers[index];
  return static_cast<double>(layer.parameters) / (layer.is_divisible() ? way.tensor : 1);
}

WayMemory memory_of(const Job& job, const Way& way) {
  WayMemory most;
  for (int stage = 0; stage < way.stages; ++stage) {
    const WayMemory memory = memory_of_stage(job, way, stage);
    if (memory.total() > most.total()) most = memory;
  }
  return most;
}

}  // namespace kolo::plan
