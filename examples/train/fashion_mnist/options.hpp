// The command line of train_fashion_mnist.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "support/run_steps.hpp"

namespace fashion_mnist {

struct Options {
  double epochs = 6;                ///< the last one may be a part of one
  std::int64_t batch = 256;         ///< over all ranks
  double learning_rate = 0.1;       ///< of a batch of 256
  std::string scale_rate = "none";  ///< to another batch
  std::int64_t accumulate = 1;      ///< parts of a batch
  std::string optimizer = "sgd";
  std::uint64_t freeze_after_steps = 234;  ///< of one_bit_adam
  double momentum = 0.9;                   ///< of sgd and lars
  double weight_decay = 5e-4;
  double trust_coefficient = 0.02;  ///< of lars: a layer moves by this, the rate and its norm
  std::string schedule = "cosine";
  std::string milestones = "3@1,3";      ///< of the schedules steps and growing-batch
  std::optional<double> warm_up_epochs;  ///< none: 0.5, and 0 for one-cycle
  std::uint64_t seed = 1;
  std::int64_t limit = 0;           ///< training images; 0: all
  std::int64_t held_out = 0;        ///< training images to evaluate on, in place of the test images
  std::int64_t steps = 0;           ///< 0: all epochs
  std::int64_t evaluate_every = 0;  ///< steps; 0: an epoch
  std::string hook;                 ///< as make_gradient_hook() takes it; empty: all_reduce
  std::string wire;                 ///< a name of kolo::Wire; empty: as the environment says
  std::string synchronization = "every-step";
  std::uint64_t period = 16;       ///< of local, post-local and gossip: steps
  double averaged_epochs = 3;      ///< of post-local: those whose gradients are averaged
  double outer_learning_rate = 0;  ///< of local and post-local; 0: no outer optimizer
  double outer_momentum = 0.9;
  bool in_bfloat16 = false;  ///< products and convolutions
  double loss_scale = 0;     ///< the first one; 0: none
  std::string data;
  std::string reader = "sampler";  ///< of make_feed()
  std::string shards;              ///< a folder
  std::string output;              ///< folder; empty: write no files
  std::string figures;             ///< folder; empty: write none
  std::string beside;              ///< metrics.json of another run
  std::string progress = "auto";
  double require_accuracy = 0;  ///< percent
  std::int64_t timeline_steps = 40;
  support::Elastic elastic;
};

/// Returns the exit code when the program is to end right away (--help, a wrong option). Throws
/// std::invalid_argument for what cannot be elastic.
std::optional<int> parse_options(int argc, char** argv, bool speak, Options& options);

}  // namespace fashion_mnist
