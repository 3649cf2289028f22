#include "pipeline/options.hpp"

#include <CLI/CLI.hpp>

#include "fashion_mnist/data.hpp"
#include "kolo/train/pipeline_parallel.hpp"
#include "support/command_line.hpp"

namespace pipeline {

std::optional<int> parse_options(int argc, char** argv, bool speak, Options& options) {
  options.data = fashion_mnist::kDefaultFolder;
  CLI::App app("Trains a residual network on Fashion-MNIST, a stage of its layers on each rank.");
  app.option_defaults()->always_capture_default();
  app.add_option("--data", options.data, "Where the images are");
  app.add_option("--epochs", options.epochs, "Passes over the training images; the last may be a part of one")
      ->check(CLI::PositiveNumber);
  app.add_option("--steps", options.steps, "Stop after so many steps; 0: after all epochs")
      ->check(CLI::NonNegativeNumber);
  app.add_option("--limit", options.limit, "Train on so many images only; 0: all")
      ->check(CLI::NonNegativeNumber);
  app.add_option("--batch", options.batch, "Images per step, all replicas together")
      ->check(CLI::PositiveNumber);
  app.add_option("--width", options.width, "Of the blocks")->check(CLI::PositiveNumber);
  app.add_option("--blocks", options.blocks,
                 "Between the first and the last layer; each has two, and adds its input")
      ->check(CLI::NonNegativeNumber);
  app.add_option("--dropout", options.dropout, "In each block")->check(CLI::Range(0.0, 0.9));
  app.add_option("--lr", options.learning_rate, "First learning rate, which falls to zero")
      ->check(CLI::PositiveNumber);
  app.add_option("--seed", options.seed, "Of the initial weights and of the order of the images");
  app.add_option("--schedule", options.schedule,
                 "The order of micro-batches: gpipe: all forwards first; 1f1b: a backward as soon as can be; "
                 "interleaved: with several stages a rank")
      ->check(CLI::IsMember(kolo::pipeline_schedule_names()));
  app.add_option("--micro-batches", options.micro_batches, "Into which a batch is cut")
      ->check(CLI::PositiveNumber);
  app.add_option("--chunks", options.chunks, "Stages of a rank, with interleaved")
      ->check(CLI::PositiveNumber);
  app.add_option("--replicas", options.replicas,
                 "Pipelines beside each other, each with a part of the batch: the ranks are divided by it")
      ->check(CLI::PositiveNumber);
  app.add_option("--borders", options.borders,
                 "First layer of each stage but the first, as in 2,5; none: even")
      ->delimiter(',');
  app.add_flag("--partition", options.partitions, "Borders from the measured times of the layers")
      ->excludes("--borders");
  app.add_flag("--recompute", options.recompute,
               "Keep a stage's input only, and compute it anew in backward");
  app.add_option("--profile", options.profile,
                 "File for what each layer costs, measured on one rank: times, bytes, parameters");
  app.add_option("--json", options.json, "File for all numbers");
  return support::parse(app, argc, argv, speak);
}

}  // namespace pipeline
