#include "language_model/options.hpp"

#include <CLI/CLI.hpp>

#include "support/command_line.hpp"
#include "support/corpus.hpp"

namespace language_model {

std::optional<int> parse_options(int argc, char** argv, bool speak, Options& options) {
  options.text = support::kDictionary;
  CLI::App app(
      "Trains a transformer that predicts the next byte of a text, on as many ranks as the job has. Reports "
      "bits per "
      "byte on text that it has not seen: what a compressor that knows the model would need.");
  app.option_defaults()->always_capture_default();
  app.add_option("--text", options.text, "File to learn from, gzip'd or not; its last megabyte is held out");
  app.add_option("--minutes", options.minutes, "How long to train, without evaluation")
      ->check(CLI::PositiveNumber);
  app.add_option("--steps", options.steps, "Train for so many steps in place of minutes; 0: minutes count")
      ->check(CLI::NonNegativeNumber);
  app.add_option("--batch", options.batch, "Windows of text per step, all ranks together")
      ->check(CLI::PositiveNumber);
  app.add_option("--lr", options.learning_rate,
                 "Highest learning rate of AdamW; it climbs and falls with a cosine")
      ->check(CLI::PositiveNumber);
  app.add_option("--weight-decay", options.weight_decay, "Weight decay")->check(CLI::NonNegativeNumber);
  app.add_option("--max-norm", options.max_norm, "Gradients are clipped to this norm")
      ->check(CLI::PositiveNumber);
  app.add_option("--width", options.shape.width, "Elements that stand for a byte; --heads divide them")
      ->check(CLI::PositiveNumber);
  app.add_option("--layers", options.shape.layers, "Layers")->check(CLI::PositiveNumber);
  app.add_option("--heads", options.shape.heads, "Heads of attention")->check(CLI::PositiveNumber);
  app.add_option("--longest-ngram", options.shape.longest_ngram,
                 "Look up the last 2, 3, ... bytes together, up to so many; 1: single bytes only")
      ->check(CLI::Range(1, 16));
  app.add_option("--ngram-rows", options.shape.ngram_rows, "Rows of the table of each length")
      ->check(CLI::Range(1, 1 << 24));
  app.add_option("--ngram-width", options.shape.ngram_width, "Elements of such a row")
      ->check(CLI::PositiveNumber);
  app.add_option("--context", options.shape.context, "Bytes of a window")->check(CLI::Range(2, 4096));
  app.add_option(
         "--shard", options.shard,
         "What each rank keeps a part of: the optimizer's state; gradients as well; parameters as well")
      ->check(CLI::IsMember({"none", "optimizer_state", "gradients", "parameters"}));
  app.add_option(
         "--precision", options.precision,
         "What products compute with; auto: bfloat16 if all ranks' processors multiply it, else float32")
      ->check(CLI::IsMember({"auto", "float32", "bfloat16"}));
  app.add_option("--seed", options.seed, "Of the initial weights, the windows and the generated text");
  app.add_option("--checkpoint", options.checkpoint,
                 "Folder to go on from if it is there; saved at each evaluation and at the end");
  app.add_option("--prompt", options.prompt, "What the generated text begins with");
  app.add_option("--generate", options.generate, "Bytes of text to generate at the end")
      ->check(CLI::NonNegativeNumber);
  app.add_option("--temperature", options.temperature, "Of the generated text: low is dull, high is wild")
      ->check(CLI::PositiveNumber);
  app.add_option("--output", options.output, "Folder for bits.svg, timeline.json and metrics.json");
  app.add_option("--beside", options.beside,
                 "metrics.json of another run, drawn into bits.svg for comparison");
  app.add_option("--timeline-steps", options.timeline_steps, "Steps that the timeline shows")
      ->check(CLI::NonNegativeNumber);
  support::add_progress(app, options.progress);
  app.add_option("--require-bits", options.require_bits,
                 "Fail if more bits per held-out byte are needed at the end; 0: any will do")
      ->check(CLI::NonNegativeNumber);
  support::add_elastic(app, options.elastic);
  return support::parse(app, argc, argv, speak);
}

}  // namespace language_model
