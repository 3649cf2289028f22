// train_fashion_mnist: trains a convolutional network on Fashion-MNIST on all ranks of the job.
//
//     kolo run -n 4 -- train_fashion_mnist --output output
#include <cstdio>
#include <filesystem>

#include "fashion_mnist/chart.hpp"
#include "fashion_mnist/interrupt.hpp"
#include "fashion_mnist/options.hpp"
#include "fashion_mnist/report.hpp"
#include "fashion_mnist/trainer.hpp"
#include "kolo/kolo.hpp"
#include "support/command_line.hpp"
#include "support/results.hpp"

namespace {

using fashion_mnist::History;
using fashion_mnist::Options;

/// Collective: the timeline gathers every rank's spans.
void write_results(const Options& options, const History& history, kolo::Communicator& communicator,
                   const kolo::Timeline& timeline) {
  const std::filesystem::path folder(options.output);
  if (communicator.rank() == 0) {
    std::filesystem::create_directories(folder);
    support::write_file(folder / "loss.svg", fashion_mnist::draw_chart(history));
    support::write_file(folder / "metrics.json", fashion_mnist::metrics_json(options, history));
  }
  kolo::write_timeline(communicator, timeline, folder / "timeline.json");
  if (communicator.rank() == 0) {
    std::printf("\n  %s/loss.svg       the curves\n", options.output.c_str());
    std::printf(
        "  %s/timeline.json  what each rank did when: open it in ui.perfetto.dev or chrome://tracing\n",
        options.output.c_str());
    std::printf("  %s/metrics.json   all numbers\n", options.output.c_str());
  }
}

int run(const Options& options) {
  fashion_mnist::catch_interrupts();
  const auto timeline = std::make_shared<kolo::Timeline>();
  timeline->pause(true);  // the trainer chooses the steps that are worth a look
  kolo::Options settings;
  settings.timeline = timeline;
  kolo::Communicator communicator = kolo::Communicator::create(settings);
  const History history = fashion_mnist::train(options, communicator, timeline);
  const bool speaks = communicator.rank() == 0;
  if (speaks) std::printf("\n%s", fashion_mnist::summary_table(history).c_str());
  if (!options.output.empty()) write_results(options, history, communicator, *timeline);
  if (history.signal != 0) {
    if (speaks) {
      std::printf("\nstopped by signal %d after step %lld\n", history.signal,
                  static_cast<long long>(history.steps));
    }
    return 128 + history.signal;
  }
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
