#include "tensor/profile.hpp"

#include "kolo/train/libtorch.hpp"

#include <ATen/Functions.h>
#include <fmt/format.h>
#include <torch/utils.h>

#include <nlohmann/json.hpp>
#include <stdexcept>

#include "kolo/train/pipeline_parallel.hpp"
#include "support/results.hpp"
#include "tensor/model.hpp"

namespace tensor {
namespace {

/// Of one layer: sums over the ranks have as many elements as its output, or its input.
std::int64_t tensor_sums(const std::string& name, std::int64_t sum_bytes) {
  // A block has two sums in forward and two in backward. The embedding has one in forward alone, the head one
  // in backward alone: half a one each way.
  return name == "embedding" || name == "head" ? sum_bytes / 2 : 2 * sum_bytes;
}

}  // namespace

void write_profile(const Options& options, const kolo::Communicator& communicator) {
  if (communicator.size() != 1) throw std::invalid_argument("--profile measures on one rank");
  if (options.mode != "tensor") throw std::invalid_argument("--profile is of --mode tensor");
  torch::manual_seed(options.seed);
  const Model model(options, communicator);
  const std::int64_t sum_bytes = 4 * options.batch * options.context * options.width;
  nlohmann::json layers = nlohmann::json::array();
  for (const kolo::LayerCost& cost : kolo::measure_layers(
           model->layers, at::randint(kBytes, {options.batch, options.context}, at::kLong))) {
    layers.push_back({{"name", cost.name},
                      {"parameters", cost.parameters},
                      {"activation_bytes", cost.activation_bytes},
                      {"output_bytes", cost.output_bytes},
                      {"forward_ms", 1e3 * cost.forward_s},
                      {"backward_ms", 1e3 * cost.backward_s},
                      {"tensor_sums", tensor_sums(cost.name, sum_bytes)}});
  }
  support::write_json(options.profile, {{"name", fmt::format("transformer, {} layers, width {}, context {}",
                                                             options.layers, options.width, options.context)},
                                        {"batch", options.batch},
                                        {"layers", std::move(layers)}});
}

}  // namespace tensor
