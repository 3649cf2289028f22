// train_fashion_mnist: trains a convolutional network on Fashion-MNIST on all ranks of the job.
//
//     kolo run -n 4 -- train_fashion_mnist --output output
#include <cstdio>
#include <optional>

#include "fashion_mnist/chart.hpp"
#include "fashion_mnist/options.hpp"
#include "fashion_mnist/report.hpp"
#include "fashion_mnist/trainer.hpp"
#include "support/command_line.hpp"
#include "support/interrupt.hpp"
#include "support/outputs.hpp"

namespace {

using fashion_mnist::History;
using fashion_mnist::Options;

struct Inputs {
  support::OtherRun other;
  fashion_mnist::Images images;
};

int run(const Options& options) {
  if (!options.elastic.is_on) support::catch_interrupts();
  std::optional<support::Timed> begun;
  Inputs inputs = support::begin(begun, options.elastic.is_on, [&] {
    return Inputs{support::read_run(options.beside, "test_accuracy"), fashion_mnist::Images(options)};
  });
  support::Timed& job = *begun;
  const History history = fashion_mnist::train(options, inputs.images, job.communicator, job.timeline);
  const bool speaks = job.communicator.rank() == 0;
  if (speaks) std::printf("\n%s", fashion_mnist::summary_table(history).c_str());
  job.write_results(
      options.output, "loss.svg", [&] { return fashion_mnist::draw_chart(history, inputs.other); },
      [&] { return fashion_mnist::metrics_json(options, history); });
  if (history.signal != 0) return job.interrupted(history.signal, history.steps);
  const double accuracy = history.evaluations.empty() ? 0 : history.evaluations.back().value;
  if (accuracy < options.require_accuracy) {
    if (speaks) {
      std::fprintf(stderr, "test accuracy %.2f %% is below the required %.2f %%\n", accuracy,
                   options.require_accuracy);
    }
    return 1;
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  return support::run_program<Options>("train_fashion_mnist", argc, argv, fashion_mnist::parse_options, run);
}
