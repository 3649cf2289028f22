// train_parameter_server: trains a convolutional network on Fashion-MNIST with parameter servers.
//
//     kolo run -n 6 -- train_parameter_server --servers 2
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "kolo/kolo.hpp"
#include "parameter_server/options.hpp"
#include "parameter_server/report.hpp"
#include "parameter_server/server.hpp"
#include "parameter_server/worker.hpp"
#include "support/command_line.hpp"
#include "support/restart.hpp"
#include "support/results.hpp"

namespace {

using parameter_server::Options;

/// What the first worker does after all.
int report(const Options& options, kolo::Store& store, int size) {
  const nlohmann::json metrics = parameter_server::gather_results(store, options, size);
  std::printf("\n%s", parameter_server::summary_table(metrics).c_str());
  if (!options.output.empty()) {
    std::filesystem::create_directories(options.output);
    const std::string path = options.output + "/metrics.json";
    support::write_json(path, metrics);
    std::printf("wrote %s\n", path.c_str());
  }
  const double accuracy = metrics.value("test_accuracy", 0.0);
  if (accuracy >= options.require_accuracy) return 0;
  std::fprintf(stderr, "test accuracy %.2f %% is below the required %.2f %%\n", accuracy,
               options.require_accuracy);
  return 1;
}

int run(const Options& options) {
  const kolo::Launch launch = kolo::launch_from_environment();
  const bool is_server = launch.rank < options.servers;
  if (is_server) {
    if (const auto exit_code = support::run_again_if_killed(options.restarts)) return *exit_code;
  }
  const auto store = parameter_server::open_store(launch);
  const nlohmann::json found = is_server ? parameter_server::serve(options, launch, store)
                                         : parameter_server::work(options, launch, store);
  parameter_server::leave(*store, launch.rank, found);
  return launch.rank == options.servers ? report(options, *store, launch.size) : 0;
}

}  // namespace

int main(int argc, char** argv) {
  return support::run_program<Options>("train_parameter_server", argc, argv, parameter_server::parse_options,
                                       run);
}
