#include "cartpole/options.hpp"

#include <CLI/CLI.hpp>

#include "support/command_line.hpp"

namespace cartpole {

std::optional<int> parse_options(int argc, char** argv, bool speak, Options& options) {
  CLI::App app(
      "Learns to balance a pole on a cart (CartPole), by proximal policy optimization. Gradients are "
      "averaged "
      "after every minibatch, thousands of times a second: what a message takes decides.");
  app.option_defaults()->always_capture_default();
  app.add_option("--communication", options.communication,
                 "What averages gradients; gloo is PyTorch's, for comparison, and wants ranks of one host")
      ->check(CLI::IsMember({"kolo", "gloo"}));
  app.add_option("--steps", options.steps, "Of all poles of all ranks together, at most")
      ->check(CLI::PositiveNumber);
  app.add_option("--updates", options.updates, "End after so many updates, solved or not; 0: steps count")
      ->check(CLI::NonNegativeNumber);
  app.add_option("--solved", options.solved,
                 "End when the last 100 episodes, as many of each rank, were so long on average")
      ->check(CLI::PositiveNumber);
  app.add_flag("--go-on", options.goes_on, "Do not end when solved");
  app.add_option("--poles", options.rollout.poles, "That each rank balances side by side")
      ->check(CLI::Range(1, 4096));
  app.add_option("--horizon", options.rollout.horizon, "Steps of each pole between two rounds of learning")
      ->check(CLI::Range(1, 4096));
  app.add_option("--discount", options.rollout.discount, "Of a reward one step later")
      ->check(CLI::Range(0.0, 0.9999));
  app.add_option("--trace", options.rollout.trace, "Lambda of generalized advantage estimation")
      ->check(CLI::Range(0.0, 1.0));
  app.add_option("--epochs", options.epochs, "Times that each sample is learned from")
      ->check(CLI::PositiveNumber);
  app.add_option("--minibatch", options.minibatch,
                 "Samples of an update, of each rank; they must divide poles x horizon")
      ->check(CLI::PositiveNumber);
  app.add_option("--width", options.width, "Of the network's two layers")->check(CLI::Range(1, 4096));
  app.add_option("--lr", options.learning_rate,
                 "Learning rate of Adam at first; it falls to 0 with the steps")
      ->check(CLI::PositiveNumber);
  app.add_option("--clip", options.objective.clip,
                 "How far an update may move a probability, as a share of it")
      ->check(CLI::PositiveNumber);
  app.add_option("--value-weight", options.objective.value, "Weight of the values' errors")
      ->check(CLI::NonNegativeNumber);
  app.add_option("--entropy", options.objective.entropy, "Weight of the policy's entropy")
      ->check(CLI::NonNegativeNumber);
  app.add_option("--max-norm", options.max_norm, "Gradients are clipped to this norm")
      ->check(CLI::PositiveNumber);
  app.add_option("--seed", options.seed, "Of the network, the poles and the policy");
  app.add_option("--json", options.json, "File for all numbers");
  return support::parse(app, argc, argv, speak);
}

}  // namespace cartpole
