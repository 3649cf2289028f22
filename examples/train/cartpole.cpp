// train_cartpole: learns to balance a pole on a cart, with thousands of averaged updates a second.
//
//     kolo run -n 2 -- train_cartpole
//     kolo run -n 2 -- train_cartpole --communication gloo
#include "kolo/train/libtorch.hpp"

#include <ATen/Parallel.h>
#include <c10/core/GradMode.h>

#include <cstdio>
#include <nlohmann/json.hpp>

#include "cartpole/options.hpp"
#include "cartpole/trainer.hpp"
#include "kolo/kolo.hpp"
#include "support/command_line.hpp"
#include "support/results.hpp"

namespace {

using cartpole::History;
using cartpole::Options;

double updates_per_second(const History& history) {
  return history.seconds > 0 ? static_cast<double>(history.updates) / history.seconds : 0;
}

double mean_return(const History& history) {
  return history.rounds.empty() ? 0 : history.rounds.back().mean_return;
}

nlohmann::json json_of(const Options& options, const History& history, int ranks) {
  nlohmann::json curve = nlohmann::json::array();
  for (const cartpole::Progress& round : history.rounds)
    curve.push_back({round.steps, round.mean_return, round.episodes});
  return {{"communication", options.communication},
          {"seed", options.seed},
          {"ranks", ranks},
          {"parameters", history.parameters},
          {"minibatch", options.minibatch},
          {"steps", history.steps},
          {"updates", history.updates},
          {"seconds", history.seconds},
          {"updates_per_s", updates_per_second(history)},
          {"average_s", history.average_seconds / static_cast<double>(history.updates)},
          {"solved_after_steps", history.solved_after},
          {"solved_after_s", history.solved_seconds},
          {"mean_return", mean_return(history)},
          {"returns", curve}};
}

void report(const Options& options, const History& history, int ranks) {
  std::printf("%d ranks, %s: %lld steps, %lld updates in %.1f s: %.0f updates/s, %.0f us each to average\n",
              ranks, options.communication.c_str(), static_cast<long long>(history.steps),
              static_cast<long long>(history.updates), history.seconds, updates_per_second(history),
              1e6 * history.average_seconds / static_cast<double>(history.updates));
  if (history.solved_after > 0) {
    std::printf("solved after %lld steps, in %.1f s\n", static_cast<long long>(history.solved_after),
                history.solved_seconds);
  }
  std::printf("the last episodes: %.1f steps on average\n", mean_return(history));
  support::write_json(options.json, json_of(options, history, ranks));
}

}  // namespace

int main(int argc, char** argv) {
  return support::run_program<Options>("train_cartpole", argc, argv, cartpole::parse_options,
                                       [](const Options& options) {
                                         at::set_num_threads(1);
                                         const c10::NoGradGuard no_grad;
                                         kolo::Communicator communicator = kolo::Communicator::create();
                                         const History history = cartpole::train(options, communicator);
                                         if (communicator.rank() == 0)
                                           report(options, history, communicator.size());
                                         return 0;
                                       });
}
