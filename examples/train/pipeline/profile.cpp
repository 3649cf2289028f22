#include "pipeline/profile.hpp"

#include "kolo/train/libtorch.hpp"

#include <ATen/Functions.h>

#include <nlohmann/json.hpp>

#include "kolo/kolo.hpp"
#include "kolo/train/pipeline_parallel.hpp"
#include "pipeline/model.hpp"
#include "support/on_all_ranks.hpp"
#include "support/results.hpp"

namespace pipeline {
namespace {

std::vector<kolo::LayerCost> measure(const Options& options, std::int64_t samples) {
  return kolo::measure_layers(make_layers(options), at::rand({samples, 784}));
}

}  // namespace

void write_profile(const std::string& path, const Options& options, std::int64_t batch) {
  nlohmann::json layers = nlohmann::json::array();
  for (const kolo::LayerCost& cost : measure(options, batch)) {
    layers.push_back({{"name", cost.name},
                      {"parameters", cost.parameters},
                      {"activation_bytes", cost.activation_bytes},
                      {"output_bytes", cost.output_bytes},
                      {"forward_ms", 1e3 * cost.forward_s},
                      {"backward_ms", 1e3 * cost.backward_s}});
  }
  const std::string name = "residual network, width " + std::to_string(options.width) + ", " +
                           std::to_string(options.blocks) + " blocks";
  support::write_json(path, {{"name", name}, {"batch", batch}, {"layers", std::move(layers)}});
}

std::vector<std::int64_t> measured_borders(const Options& options, std::int64_t samples, int stages,
                                           kolo::Communicator& communicator) {
  std::vector<std::int64_t> borders = support::on_all_ranks(communicator, [&] {
    return communicator.rank() == 0 ? kolo::partition(measure(options, samples), stages).borders
                                    : std::vector<std::int64_t>(static_cast<std::size_t>(stages) - 1);
  });
  communicator.broadcast(kolo::Buffer(borders), 0);
  return borders;
}

}  // namespace pipeline
