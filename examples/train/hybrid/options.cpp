#include "hybrid/options.hpp"

#include <CLI/CLI.hpp>

#include "kolo/train/pipeline_parallel.hpp"
#include "support/command_line.hpp"
#include "support/corpus.hpp"

namespace hybrid {

std::optional<int> parse_options(int argc, char** argv, bool speak, Options& options) {
  tensor::Options& model = options.model;
  model.text = support::kDictionary;
  CLI::App app(
      "Trains a transformer that predicts the next byte of a text. The ranks are a grid: --data x --sharded "
      "x "
      "--pipeline x --tensor of them.");
  app.option_defaults()->always_capture_default();
  app.add_option("--data", options.grid.data, "Replicas, each with its part of the batch");
  app.add_option("--sharded", options.grid.sharded,
                 "Ranks that divide parameters, gradients and optimizer state of what a replica holds");
  app.add_option("--pipeline", options.grid.pipeline, "Stages; layers are embedding, blocks and head");
  app.add_option("--tensor", options.grid.tensor, "Ranks that divide each layer");
  app.add_option("--schedule", options.schedule, "Of the pipeline")->check(CLI::IsMember({"1f1b", "gpipe"}));
  app.add_option("--micro-batches", options.micro_batches, "Into which a pipeline cuts its part of the batch")
      ->check(CLI::PositiveNumber);
  app.add_option("--text", model.text, "File to learn from, gzip'd or not");
  app.add_option("--steps", model.steps, "Steps")->check(CLI::PositiveNumber);
  app.add_option("--batch", model.batch, "Windows of text per step, of all replicas")
      ->check(CLI::PositiveNumber);
  app.add_option("--context", model.context, "Bytes of a window")->check(CLI::Range(2, 1 << 20));
  app.add_option("--width", model.width, "Elements that stand for a byte; --heads divide them")
      ->check(CLI::PositiveNumber);
  app.add_option("--heads", model.heads, "Heads of attention")->check(CLI::PositiveNumber);
  app.add_option("--layers", model.layers, "Blocks")->check(CLI::PositiveNumber);
  app.add_option("--lr", model.learning_rate, "Learning rate of Adam")->check(CLI::PositiveNumber);
  app.add_option("--max-norm", model.max_norm, "Gradients are clipped to this norm")
      ->check(CLI::PositiveNumber);
  app.add_option("--seed", model.seed, "Of the initial weights and the windows");
  app.add_option("--json", options.json, "File for all numbers");
  support::add_progress(app, model.progress);
  return support::parse(app, argc, argv, speak);
}

}  // namespace hybrid
