// train_fashion_mnist: trains a convolutional network on Fashion-MNIST on all ranks of the job.
//
//     kolo run -n 4 -- train_fashion_mnist --output output
#include <cstdio>

#include "fashion_mnist/chart.hpp"
#include "fashion_mnist/options.hpp"
#include "fashion_mnist/report.hpp"
#include "fashion_mnist/trainer.hpp"
#include "support/command_line.hpp"
#include "support/interrupt.hpp"
#include "support/on_all_ranks.hpp"
#include "support/outputs.hpp"

namespace {

using fashion_mnist::History;
using fashion_mnist::Options;

int run(const Options& options) {
  support::catch_interrupts();
  support::Timed job;
  const support::OtherRun other = support::on_all_ranks(
      job.communicator, [&] { return support::read_run(options.beside, "test_accuracy"); });
  const History history = fashion_mnist::train(options, job.communicator, job.timeline);
  const bool speaks = job.communicator.rank() == 0;
  if (speaks) std::printf("\n%s", fashion_mnist::summary_table(history).c_str());
  job.write_results(
      options.output, "loss.svg", [&] { return fashion_mnist::draw_chart(history, other); },
      [&] { return fashion_mnist::metrics_json(options, history); });
  if (history.signal != 0) return job.interrupted(history.signal, history.steps);
  const double accuracy = history.accuracies.empty() ? 0 : history.accuracies.back().value;
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
