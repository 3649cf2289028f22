#include "parameter_server/options.hpp"

#include <CLI/CLI.hpp>

#include <map>

#include "fashion_mnist/data.hpp"
#include "support/command_line.hpp"

namespace parameter_server {

std::optional<int> parse_options(int argc, char** argv, bool speak, Options& options) {
  options.data = fashion_mnist::kDefaultFolder;
  CLI::App app(
      "Trains a convolutional network on Fashion-MNIST with parameter servers: the first ranks of the job "
      "hold the "
      "parameters, the others compute gradients.");
  app.footer(
      "Examples:\n"
      "  kolo run -n 6 -- train_parameter_server --servers 2\n"
      "  kolo run -n 5 -- train_parameter_server --rule clocks --staleness 3\n"
      "  kolo run -n 5 -- train_parameter_server --rule versions --staleness 8 --late divide\n"
      "  kolo run -n 5 -- train_parameter_server --push weights --local-steps 8\n"
      "  kolo run -n 5 -- train_parameter_server --rule unbounded --compute-ms 40 --slow-worker 3 --slow-ms "
      "160\n"
      "  kolo run -n 5 --keep-going -- train_parameter_server --checkpoint run --restarts 3\n"
      "Exit code: 0, or 1 when a rank fails or --require-accuracy is not reached.");
  app.option_defaults()->always_capture_default();
  app.add_option("--servers", options.servers, "The first so many ranks are servers");
  app.add_option("--rule", options.rule,
                 "synchronous: a round has a push of each worker; unbounded: each worker at its own pace; "
                 "clocks: the "
                 "same, but no worker is more than --staleness pushes ahead of the slowest; versions: the "
                 "same, but a "
                 "push is late if its parameters lack more than --staleness updates")
      ->check(CLI::IsMember({"synchronous", "unbounded", "clocks", "versions"}));
  app.add_option("--staleness", options.staleness, "The bound of clocks and versions");
  app.add_option("--late", options.late, "With versions: late pushes are dropped, or divided by their age")
      ->check(CLI::IsMember({"drop", "divide"}));
  app.add_option("--push", options.push,
                 "gradients: the servers' optimizer moves the parameters; weights: each worker's does, and "
                 "the servers "
                 "average")
      ->check(CLI::IsMember({"gradients", "weights"}));
  app.add_option("--local-steps", options.local_steps, "Steps of a worker between two pushes of weights")
      ->check(CLI::PositiveNumber);
  app.add_option("--epochs", options.epochs, "Passes over the training images")->check(CLI::PositiveNumber);
  app.add_option("--batch", options.batch, "Images per step, all workers together")
      ->check(CLI::PositiveNumber);
  app.add_option(
         "--lr", options.learning_rate,
         "Highest learning rate of a synchronous update; a push alone, with a worker's part of the batch, "
         "moves by as small a part of it")
      ->check(CLI::PositiveNumber);
  app.add_option("--momentum", options.momentum, "Nesterov's momentum; 0: none")
      ->check(CLI::Range(0.0, 0.999));
  app.add_option("--weight-decay", options.weight_decay, "Weight decay")->check(CLI::NonNegativeNumber);
  app.add_option("--seed", options.seed, "Of the initial weights and of the order of the images");
  app.add_option("--limit", options.limit, "Train on so many images only; 0: all")
      ->check(CLI::NonNegativeNumber);
  app.add_option("--data", options.data, "Folder of the gzip'd IDX files");
  app.add_option("--compute-ms", options.compute_ms,
                 "Sleep so long a step in place of computing, to measure images a second alone; 0: compute")
      ->check(CLI::NonNegativeNumber);
  app.add_option("--slow-worker", options.slow_worker,
                 "This worker, from 0, sleeps --slow-ms a step; -1: none");
  app.add_option("--slow-ms", options.slow_ms, "Sleep of the slow worker's step")
      ->check(CLI::NonNegativeNumber);
  app.add_option("--seconds", options.seconds, "How long workers go on that sleep")
      ->check(CLI::PositiveNumber);
  app.add_option("--checkpoint", options.checkpoint,
                 "Folder where each server keeps its part; a run begins with what is there");
  app.add_option("--checkpoint-every", options.checkpoint_every, "Updates between two checkpoints")
      ->check(CLI::PositiveNumber);
  app.add_option("--restarts", options.restarts,
                 "Start a server that was killed again, so many times; it goes on from its checkpoint")
      ->check(CLI::NonNegativeNumber);
  app.add_option("--reconnect", options.reconnect_s, "Seconds that workers wait for a server to come back")
      ->check(CLI::PositiveNumber);
  app.add_option("--output", options.output, "Folder for metrics.json");
  support::add_progress(app, options.progress);
  app.add_option("--require-accuracy", options.require_accuracy,
                 "Fail when the test accuracy, in percent, stays below")
      ->check(CLI::Range(0.0, 100.0));
  return support::parse(app, argc, argv, speak);
}

kolo::methods::ParameterServerOptions server_options(const Options& options) {
  const std::map<std::string, kolo::methods::ServerRule> rules = {
      {"synchronous", kolo::methods::ServerRule::synchronous},
      {"unbounded", kolo::methods::ServerRule::unbounded},
      {"clocks", kolo::methods::ServerRule::clocks},
      {"versions", kolo::methods::ServerRule::versions}};
  return {.servers = options.servers,
          .rule = rules.at(options.rule),
          .staleness = options.staleness,
          .late = options.late == "drop" ? kolo::methods::LatePush::drop : kolo::methods::LatePush::divide,
          .push = options.push == "weights" ? kolo::methods::PushKind::weights
                                            : kolo::methods::PushKind::gradients,
          .reconnect = std::chrono::nanoseconds(static_cast<std::int64_t>(1e9 * options.reconnect_s))};
}

}  // namespace parameter_server
