// train_tensor: trains a small transformer that predicts the next byte of a text, whose layers or sequences
// are divided among the ranks. The loss is that of one rank.
//
//     kolo run -n 4 -- train_tensor --mode sequence
#include "kolo/train/libtorch.hpp"

#include <ATen/Parallel.h>

#include <cstdio>
#include <nlohmann/json.hpp>

#include "kolo/kolo.hpp"
#include "support/command_line.hpp"
#include "support/results.hpp"
#include "tensor/options.hpp"
#include "tensor/profile.hpp"
#include "tensor/trainer.hpp"

namespace {

int run(const tensor::Options& options) {
  at::set_num_threads(1);  // ranks share the cores
  kolo::Communicator communicator = kolo::Communicator::create();
  if (!options.profile.empty()) {
    tensor::write_profile(options, communicator);
    return 0;
  }
  const nlohmann::json results = tensor::train(options, communicator);
  if (communicator.rank() == 0) support::write_json(options.json, results);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  return support::run_program<tensor::Options>("train_tensor", argc, argv, tensor::parse_options, run);
}
