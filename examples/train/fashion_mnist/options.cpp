#include "fashion_mnist/options.hpp"

#include <CLI/CLI.hpp>
#include <stdexcept>

#include "fashion_mnist/data.hpp"
#include "kolo/train/hooks.hpp"
#include "support/command_line.hpp"

namespace fashion_mnist {

std::optional<int> parse_options(int argc, char** argv, bool speak, Options& options) {
  options.data = kDefaultFolder;
  CLI::App app("Trains a convolutional network on Fashion-MNIST, on as many ranks as the job has.");
  app.option_defaults()->always_capture_default();
  app.add_option("--epochs", options.epochs, "Passes over the training images; the last may be a part of one")
      ->check(CLI::PositiveNumber);
  app.add_option("--batch", options.batch, "Images per step, all ranks together")->check(CLI::PositiveNumber);
  app.add_option("--accumulate", options.accumulate,
                 "Equal parts in which a rank computes its images of a step: less memory, the same step")
      ->check(CLI::PositiveNumber);
  app.add_option("--lr", options.learning_rate, "Highest learning rate, for a batch of 256")
      ->check(CLI::PositiveNumber);
  app.add_option("--scale-rate", options.scale_rate,
                 "How the rate follows --batch: linear: times batch / 256; sqrt: times its root")
      ->check(CLI::IsMember({"none", "linear", "sqrt"}));
  app.add_option(
         "--schedule", options.schedule,
         "How the rate goes on after the warm-up: cosine: down to zero; one-cycle: up and down, momentum the "
         "other way; triangular: in cycles of two epochs between a quarter of the rate and the rate; steps: "
         "divided at milestones; growing-batch: constant, and the batch is multiplied at milestones")
      ->check(CLI::IsMember({"constant", "cosine", "one-cycle", "triangular", "steps", "growing-batch"}));
  app.add_option(
      "--milestones", options.milestones,
      "FACTOR@EPOCH,EPOCH...: what steps divides the rate by and growing-batch multiplies the batch by, "
      "after so many epochs");
  app.add_option("--warm-up", options.warm_up_epochs,
                 "Epochs in which the rate climbs from zero to where the schedule begins [0.5; one-cycle: 0]")
      ->check(CLI::NonNegativeNumber);
  app.add_option("--optimizer", options.optimizer, "How gradients move parameters")
      ->check(CLI::IsMember({"sgd", "adam", "one_bit_adam", "lars", "lamb"}));
  app.add_option("--freeze-after-steps", options.freeze_after_steps, "The warm-up of one_bit_adam")
      ->check(CLI::PositiveNumber);
  app.add_option("--momentum", options.momentum, "Momentum of sgd (Nesterov's) and lars; 0: none")
      ->check(CLI::Range(0.0, 0.999));
  app.add_option("--weight-decay", options.weight_decay, "Weight decay")->check(CLI::NonNegativeNumber);
  app.add_option("--trust-coefficient", options.trust_coefficient,
                 "lars moves a layer by so much times its rate and norm; biases move by the rate itself")
      ->check(CLI::PositiveNumber);
  app.add_option("--seed", options.seed, "Of the initial weights and of the order of the images");
  app.add_option("--limit", options.limit, "Train on so many images only; 0: all")
      ->check(CLI::NonNegativeNumber);
  app.add_option(
         "--held-out", options.held_out,
         "Evaluate on the last so many training images, which are not trained on; 0: on the test images")
      ->check(CLI::NonNegativeNumber);
  app.add_option("--steps", options.steps, "Stop after so many steps of the schedule; 0: after all epochs")
      ->check(CLI::NonNegativeNumber);
  app.add_option("--evaluate-every", options.evaluate_every, "Steps between evaluations; 0: an epoch")
      ->check(CLI::NonNegativeNumber);
  std::string hooks;
  for (const std::string& name : kolo::gradient_hook_names()) hooks += (hooks.empty() ? "" : ", ") + name;
  app.add_option(
      "--hook", options.hook,
      "How gradients are averaged in place of all_reduce, such as top_k:ratio=0.01; there are " + hooks);
  app.add_option("--wire", options.wire, "The format in which all_reduce sends gradients")
      ->check(CLI::IsMember({"native", "bfloat16", "float16", "int8"}));
  app.add_option(
         "--synchronization", options.synchronization,
         "When ranks wait for each other: every-step: gradients are averaged; late: their averages "
         "arrive a step later; gossip: models are averaged with one other rank; local: with all ranks, "
         "now and then; post-local: gradients first, then local")
      ->check(CLI::IsMember({"every-step", "late", "gossip", "local", "post-local"}));
  app.add_option("--period", options.period, "Steps between two averages of models");
  app.add_option("--averaged-epochs", options.averaged_epochs,
                 "Epochs in which post-local averages gradients")
      ->check(CLI::NonNegativeNumber);
  app.add_option("--outer-lr", options.outer_learning_rate,
                 "Averages of models are steps of an outer SGD with this rate; 0: they are taken as they are")
      ->check(CLI::NonNegativeNumber);
  app.add_option("--outer-momentum", options.outer_momentum, "Its momentum, Nesterov's; 0: none");
  app.add_flag("--bfloat16", options.in_bfloat16,
               "Compute products and convolutions in bfloat16; weights stay float32");
  app.add_option(
         "--loss-scale", options.loss_scale,
         "Scale the loss by so much at first, and adapt the scale, as for --wire float16; 0: no scale")
      ->check(CLI::NonNegativeNumber);
  app.add_option("--data", options.data, "Folder of the gzip'd IDX files");
  app.add_option(
         "--reader", options.reader,
         "sampler: each rank reads all images; shards: each reads files of its own; scatter: rank 0 reads "
         "and gives each rank its part")
      ->check(CLI::IsMember({"sampler", "shards", "scatter"}));
  app.add_option("--shards", options.shards,
                 "Folder of these files; rank 0 writes them where there are none");
  app.add_option("--output", options.output, "Folder for loss.svg, timeline.json and metrics.json");
  app.add_option("--figures", options.figures,
                 "Folder for figures.csv and an event file of TensorBoard, written as the run goes on");
  app.add_option("--beside", options.beside,
                 "metrics.json of another run, drawn into loss.svg for comparison");
  app.add_option("--timeline-steps", options.timeline_steps, "Steps that the timeline shows")
      ->check(CLI::NonNegativeNumber);
  support::add_progress(app, options.progress);
  app.add_option("--require-accuracy", options.require_accuracy,
                 "Fail when the test accuracy, in percent, stays below")
      ->check(CLI::Range(0.0, 100.0));
  support::add_elastic(app, options.elastic);
  const auto exit_code = support::parse(app, argc, argv, speak);
  if (options.elastic.is_on &&
      (options.synchronization != "every-step" || options.reader != "sampler" || options.accumulate > 1 ||
       options.loss_scale > 0 || !options.hook.empty() || options.optimizer == "one_bit_adam")) {
    throw std::invalid_argument(
        "--elastic excludes --synchronization, --reader, --accumulate, --loss-scale, --hook and --optimizer "
        "one_bit_adam");
  }
  return exit_code;
}

}  // namespace fashion_mnist
