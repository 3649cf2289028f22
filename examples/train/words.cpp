// train_words: a language model over words, whose tables have sparse gradients.
//
//     kolo run -n 4 -- train_words --tables sparse
#include "kolo/train/libtorch.hpp"

#include <ATen/Functions.h>
#include <ATen/Parallel.h>
#include <c10/core/GradMode.h>
#include <torch/optim/adagrad.h>
#include <torch/optim/sgd.h>
#include <torch/utils.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <vector>

#include "kolo/kolo.hpp"
#include "kolo/train/distributed_data_parallel.hpp"
#include "kolo/train/optim.hpp"
#include "support/command_line.hpp"
#include "support/on_all_ranks.hpp"
#include "support/results.hpp"
#include "words/elastic.hpp"
#include "words/model.hpp"
#include "words/text.hpp"

namespace {

struct Settings {
  std::string tables = "sparse";
  std::string optimizer = "sgd";
  double learning_rate = 0;
  std::int64_t vocabulary = 100'000;
  std::int64_t width = 64;
  std::int64_t tokens = 1024;  ///< a rank and a step
  std::int64_t negatives = 1024;
  std::int64_t steps = 200;
  std::int64_t held_out = 0;
  std::uint64_t seed = 1;
  std::int64_t words = 0;
  std::string text;
  std::string json;
  std::string write_words;
  std::vector<std::string> elastic;
  std::string address = "127.0.0.1";
  std::string key;
  bool joins = false;
  std::string record;
};

std::optional<int> parse(int argc, char** argv, bool speak, Settings& settings) {
  CLI::App app("Trains a language model over words: two tables, of which a step needs few rows.");
  app.option_defaults()->always_capture_default();
  app.add_option("--tables", settings.tables,
                 "sparse: gradients of rows, summed by SparseAllReduce; gather: of rows, each rank gets all "
                 "ranks' rows; dense: of whole tables, summed by all_reduce")
      ->check(CLI::IsMember({"sparse", "gather", "dense"}));
  app.add_option("--optimizer", settings.optimizer, "adam is SparseAdam: it moves the rows of a step alone")
      ->check(CLI::IsMember({"sgd", "adagrad", "adam"}));
  app.add_option("--lr", settings.learning_rate,
                 "Learning rate; 0: 2 for sgd, 0.1 for adagrad, 0.002 for adam")
      ->check(CLI::NonNegativeNumber);
  app.add_option("--vocabulary", settings.vocabulary, "Words, that is rows of each table")
      ->check(CLI::Range(std::int64_t{2}, std::int64_t{1} << 31));
  app.add_option("--width", settings.width, "Elements of a row")->check(CLI::PositiveNumber);
  app.add_option("--tokens", settings.tokens, "Words that a rank predicts in a step")
      ->check(CLI::PositiveNumber);
  app.add_option("--negatives", settings.negatives, "Words that the right one is told from in a step")
      ->check(CLI::PositiveNumber);
  app.add_option("--steps", settings.steps, "Steps")->check(CLI::PositiveNumber);
  app.add_option("--seed", settings.seed, "Of the initial values and the draws");
  app.add_option(
      "--text", settings.text,
      "A file to learn from, gzip'd or not; its last megabyte is held out. Without it a text is made up");
  app.add_option(
         "--held-out", settings.held_out,
         "Words of the held-out text whose perplexity is computed at the end, by a softmax over the whole "
         "vocabulary; 0: none")
      ->check(CLI::NonNegativeNumber);
  app.add_option("--json", settings.json, "File for all numbers");
  app.add_option("--words", settings.words, "Words to train on; 0: all of the text")
      ->check(CLI::NonNegativeNumber);
  app.add_option("--write-words", settings.write_words,
                 "Writes the words to train on as int64 numbers to this file, and ends");
  auto* const elastic = app.add_option("--elastic", settings.elastic,
                                       "HOST:PORT,... of each machine, where the store may be: go on "
                                       "whichever rank dies, take newcomers in, and "
                                       "print each step as JSON; sparse tables, sgd");
  elastic->delimiter(',');
  app.add_option("--address", settings.address, "Of this machine, with --elastic")->envname("KOLO_INTERFACE");
  app.add_option("--key", settings.key, "The job's, with --elastic; better in the environment")
      ->envname("KOLO_KEY");
  app.add_flag("--join", settings.joins, "Come to the group that is there")->needs(elastic);
  app.add_option("--record", settings.record, "Folder in which each process writes which samples it takes")
      ->needs(elastic);
  return support::parse(app, argc, argv, speak);
}

double rate_of(const Settings& settings, double usual) {
  return settings.learning_rate > 0 ? settings.learning_rate : usual;
}

std::unique_ptr<torch::optim::Optimizer> make_optimizer(const Settings& settings,
                                                        const std::vector<at::Tensor>& parameters) {
  if (settings.optimizer == "adam")
    return std::make_unique<kolo::SparseAdam>(parameters,
                                              torch::optim::AdamOptions(rate_of(settings, 0.002)));
  if (settings.optimizer == "adagrad") {
    return std::make_unique<torch::optim::Adagrad>(parameters,
                                                   torch::optim::AdagradOptions(rate_of(settings, 0.1)));
  }
  return std::make_unique<torch::optim::SGD>(parameters, rate_of(settings, 2));
}

/// This rank's share of the text in a step.
words::Batch batch_of(const Settings& settings, const at::Tensor& text, const words::LogUniform& sampler,
                      std::int64_t step, const kolo::Communicator& communicator) {
  const std::int64_t places = text.size(0) - words::kContext;
  const std::int64_t first = (step * communicator.size() + communicator.rank()) * settings.tokens % places;
  const at::Tensor at = at::arange(first, first + settings.tokens, at::kLong).remainder(places);
  return words::batch_at(text, at, sampler, settings.negatives, settings.seed,
                         static_cast<std::uint64_t>(step));
}

struct Results {
  std::vector<double> losses;   ///< means over all ranks
  std::vector<double> seconds;  ///< of each step, of the slowest rank
  double sent_bytes = 0;        ///< a step, mean over ranks
  double perplexity = 0;        ///< of words held out; 0: not computed
};

words::Words text_of(const Settings& settings) {
  words::Words all;
  if (settings.text.empty()) {
    constexpr std::int64_t kWords = 1 << 20;
    const at::Tensor text =
        words::made_up_text(settings.vocabulary, kWords + settings.held_out, settings.seed);
    all = {text.slice(0, 0, kWords), text.slice(0, kWords)};
  } else {
    all = words::read_text(settings.text, settings.vocabulary);
  }
  if (settings.words > 0) all.training = all.training.slice(0, 0, settings.words);
  if (settings.held_out > 0 &&
      (settings.held_out <= words::kContext || all.held_out.size(0) < settings.held_out)) {
    throw std::invalid_argument("--held-out " + std::to_string(settings.held_out) + ": there are " +
                                std::to_string(all.held_out.size(0)) +
                                " words held out, of which it takes more than " +
                                std::to_string(words::kContext));
  }
  return all;
}

int write_words(const Settings& settings) {
  const at::Tensor text = text_of(settings).training.contiguous();
  std::ofstream file(settings.write_words, std::ios::binary);
  file.write(static_cast<const char*>(text.data_ptr()), static_cast<std::streamsize>(text.nbytes()));
  if (!file.flush()) throw std::runtime_error(settings.write_words + " cannot be written");
  return 0;
}

Results train(const Settings& settings, kolo::Communicator& communicator) {
  const bool speaks = communicator.rank() == 0;
  const words::Words all = support::on_all_ranks(communicator, [&] { return text_of(settings); });
  const at::Tensor& text = all.training;
  torch::manual_seed(static_cast<std::int64_t>(settings.seed));
  kolo::DistributedDataParallelOptions options;
  if (settings.tables == "gather") options.sparse_method = kolo::SparseMethod::all_gather;
  kolo::DistributedDataParallel model(
      words::Model(settings.vocabulary, settings.width, settings.tables != "dense"), communicator, options);
  const auto optimizer = make_optimizer(settings, model.parameters());

  Results results;
  std::uint64_t sent = 0;
  for (std::int64_t step = 0; step < settings.steps; ++step) {
    const words::Batch batch = batch_of(settings, text, model->sampler, step, communicator);
    const std::uint64_t before = communicator.counters().bytes_sent;
    const auto begin = std::chrono::steady_clock::now();
    optimizer->zero_grad();
    const at::Tensor loss = model(batch.context, batch.targets, batch.negatives);
    loss.backward();
    optimizer->step();
    double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    if (step > 0)
      sent += communicator.counters().bytes_sent - before;  // the first one orders the buckets, too
    double mean = loss.item<double>();
    communicator.all_reduce(kolo::Buffer(&mean, 1, kolo::DType::float64), kolo::ReduceOp::average);
    communicator.all_reduce(kolo::Buffer(&seconds, 1, kolo::DType::float64), kolo::ReduceOp::max);
    results.losses.push_back(mean);
    results.seconds.push_back(seconds);
    if (speaks && (step + 1) % 20 == 0) {
      std::printf("step %5lld  loss %.4f  %6.1f ms\n", static_cast<long long>(step + 1), mean, 1e3 * seconds);
      std::fflush(stdout);
    }
  }
  results.sent_bytes =
      static_cast<double>(sent) / static_cast<double>(std::max<std::int64_t>(1, settings.steps - 1));
  communicator.all_reduce(kolo::Buffer(&results.sent_bytes, 1, kolo::DType::float64),
                          kolo::ReduceOp::average);
  if (settings.held_out > 0) {
    results.perplexity =
        words::perplexity(model.model(), all.held_out.slice(0, 0, settings.held_out), communicator);
  }
  return results;
}

void report(const Settings& settings, const Results& results, int ranks) {
  const auto [mean, median] = support::step_times(results.seconds);
  std::printf(
      "%s tables, %s, %d ranks: loss %.4f, %.1f ms a step (median %.1f), a rank sends %.3f MB a step\n",
      settings.tables.c_str(), settings.optimizer.c_str(), ranks, results.losses.back(), 1e3 * mean,
      1e3 * median, results.sent_bytes / 1e6);
  if (settings.held_out > 0)
    std::printf("perplexity of %lld words held out: %.1f\n", static_cast<long long>(settings.held_out),
                results.perplexity);
  support::write_json(settings.json, {{"tables", settings.tables},
                                      {"optimizer", settings.optimizer},
                                      {"ranks", ranks},
                                      {"vocabulary", settings.vocabulary},
                                      {"width", settings.width},
                                      {"tokens", settings.tokens},
                                      {"negatives", settings.negatives},
                                      {"seed", settings.seed},
                                      {"held_out", settings.held_out},
                                      {"perplexity", results.perplexity},
                                      {"loss", results.losses},
                                      {"step_seconds", results.seconds},
                                      {"mean_step_s", mean},
                                      {"median_step_s", median},
                                      {"sent_bytes_per_step", results.sent_bytes}});
}

}  // namespace

int main(int argc, char** argv) {
  return support::run_program<Settings>("train_words", argc, argv, parse, [](const Settings& settings) {
    if (!settings.write_words.empty()) return write_words(settings);
    if (!settings.elastic.empty()) {
      words::train_elastically({.text = text_of(settings).training,
                                .vocabulary = settings.vocabulary,
                                .width = settings.width,
                                .tokens = settings.tokens,
                                .negatives = settings.negatives,
                                .learning_rate = rate_of(settings, 2),
                                .steps = settings.steps,
                                .seed = settings.seed,
                                .record = settings.record,
                                .stores = settings.elastic,
                                .address = settings.address,
                                .key = settings.key,
                                .joins = settings.joins});
      return 0;
    }
    kolo::Communicator communicator = kolo::Communicator::create();
    const Results results = train(settings, communicator);
    if (communicator.rank() == 0) report(settings, results, communicator.size());
    return 0;
  });
}
