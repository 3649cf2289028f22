// train_pipeline: trains a residual network on Fashion-MNIST whose layers are on different ranks.
//
//     kolo run -n 4 -- train_pipeline --micro-batches 8
#include <ATen/Parallel.h>

#include <cstdio>
#include <nlohmann/json.hpp>

#include "kolo/kolo.hpp"
#include "pipeline/options.hpp"
#include "pipeline/trainer.hpp"
#include "support/command_line.hpp"
#include "support/results.hpp"

namespace {

int run(const pipeline::Options& options) {
  at::set_num_threads(1);
  kolo::Communicator communicator = kolo::Communicator::create();
  const nlohmann::json results = pipeline::train(options, communicator);
  if (communicator.rank() == 0) support::write_json(options.json, results);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  return support::run_program<pipeline::Options>("train_pipeline", argc, argv, pipeline::parse_options, run);
}
