// train_language_model: trains a transformer that predicts the next byte of English, on all ranks of the job.
//
//     kolo run -n 4 -- train_language_model --output output
#include <cstdio>
#include <optional>

#include "language_model/options.hpp"
#include "language_model/report.hpp"
#include "language_model/trainer.hpp"
#include "support/command_line.hpp"
#include "support/corpus.hpp"
#include "support/interrupt.hpp"
#include "support/outputs.hpp"

namespace {

using language_model::History;
using language_model::Options;

struct Inputs {
  support::OtherRun other;
  support::Corpus corpus;
};

int run(const Options& options) {
  if (!options.elastic.is_on) support::catch_interrupts();
  std::optional<support::Timed> begun;
  const Inputs inputs = support::begin(begun, options.elastic.is_on, [&] {
    return Inputs{support::read_run(options.beside, "held_out"), support::read_corpus(options.text)};
  });
  support::Timed& job = *begun;
  const History history = language_model::train(options, inputs.corpus, job.communicator, job.timeline);
  const bool speaks = job.communicator.rank() == 0;
  if (speaks) {
    if (!history.generated.empty()) std::printf("\n%s\n", history.generated.c_str());
    std::printf("\n%s", language_model::summary_table(history).c_str());
  }
  job.write_results(
      options.output, "bits.svg", [&] { return language_model::draw_chart(history, inputs.other); },
      [&] { return language_model::metrics_json(options, history); });
  if (history.signal != 0) return job.interrupted(history.signal, history.steps);
  const double bits = history.evaluations.empty() ? 0 : history.evaluations.back().value;
  if (options.require_bits > 0 && bits > options.require_bits) {
    if (speaks) {
      std::fprintf(stderr, "%.3f bits per byte are more than the required %.3f\n", bits,
                   options.require_bits);
    }
    return 1;
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  return support::run_program<Options>("train_language_model", argc, argv, language_model::parse_options,
                                       run);
}
