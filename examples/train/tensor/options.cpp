#include "tensor/options.hpp"

#include <CLI/CLI.hpp>

#include "support/command_line.hpp"
#include "support/corpus.hpp"

namespace tensor {

std::optional<int> parse_options(int argc, char** argv, bool speak, Options& options) {
  options.text = support::kDictionary;
  CLI::App app("Trains a transformer that predicts the next byte of a text, divided among the job's ranks.");
  app.option_defaults()->always_capture_default();
  app.add_option("--text", options.text, "File to learn from, gzip'd or not");
  app.add_option("--mode", options.mode,
                 "What is divided. tensor: heads, features, vocabulary; sequence: norms and dropout as well, "
                 "along the sequence; experts: as that, with experts in place of the feed-forward layers; "
                 "branches: maps of convolutions, and feed-forward branches, as many as experts; "
                 "ulysses, ring: the sequence alone, by attention that exchanges heads, or blocks of keys")
      ->check(CLI::IsMember({"tensor", "sequence", "experts", "branches", "ulysses", "ring"}));
  app.add_option("--steps", options.steps, "Steps")->check(CLI::PositiveNumber);
  app.add_option("--batch", options.batch, "Windows of text per step")->check(CLI::PositiveNumber);
  app.add_option("--context", options.context, "Bytes of a window")->check(CLI::Range(2, 1 << 20));
  app.add_option("--width", options.width, "Elements that stand for a byte; --heads divide them")
      ->check(CLI::PositiveNumber);
  app.add_option("--heads", options.heads, "Heads of attention")->check(CLI::PositiveNumber);
  app.add_option("--layers", options.layers, "Layers")->check(CLI::PositiveNumber);
  app.add_option("--experts", options.experts, "Of a layer")->check(CLI::PositiveNumber);
  app.add_option("--chosen", options.chosen, "Experts that a byte uses")->check(CLI::Range(1, 2));
  app.add_option("--capacity-factor", options.capacity_factor,
                 "An expert takes so many times its equal part of the bytes; 0: all that choose it")
      ->check(CLI::NonNegativeNumber);
  app.add_option("--dropout", options.dropout,
                 "Of layers and of attention; tensor, sequence and experts only")
      ->check(CLI::Range(0.0, 0.9));
  app.add_option("--lr", options.learning_rate, "Learning rate of Adam")->check(CLI::PositiveNumber);
  app.add_option("--max-norm", options.max_norm, "Gradients are clipped to this norm")
      ->check(CLI::PositiveNumber);
  app.add_option("--seed", options.seed, "Of the initial weights, the windows and dropout");
  app.add_option("--json", options.json, "File for all numbers");
  app.add_option("--profile", options.profile,
                 "Train nothing: write what each layer costs, measured on one rank, for kolo plan training");
  support::add_progress(app, options.progress);
  return support::parse(app, argc, argv, speak);
}

}  // namespace tensor
