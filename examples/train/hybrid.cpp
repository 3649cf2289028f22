// train_hybrid: trains a small transformer that predicts the next byte of a text, divided among the ranks in
// several ways at once. The loss is that of one rank.
//
//     kolo run -n 8 -- train_hybrid --data 2 --pipeline 2 --tensor 2
#include "kolo/train/libtorch.hpp"

#include <ATen/Parallel.h>

#include <nlohmann/json.hpp>

#include "hybrid/options.hpp"
#include "hybrid/trainer.hpp"
#include "kolo/kolo.hpp"
#include "support/command_line.hpp"
#include "support/results.hpp"

namespace {

int run(const hybrid::Options& options) {
  at::set_num_threads(1);  // ranks share the cores
  kolo::Communicator communicator = kolo::Communicator::create();
  const nlohmann::json results = hybrid::train(options, communicator);
  if (communicator.rank() == 0) support::write_json(options.json, results);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  return support::run_program<hybrid::Options>("train_hybrid", argc, argv, hybrid::parse_options, run);
}
