#include "parameter_server/server.hpp"

#include <ATen/Parallel.h>
#include <torch/utils.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>

#include "fashion_mnist/model.hpp"
#include "kolo/train/optim.hpp"
#include "methods/parameter_server.hpp"
#include "parameter_server/plan.hpp"

namespace parameter_server {
namespace {

void say(int server, const std::string& text) {
  std::printf("server %d: %s\n", server, text.c_str());
  std::fflush(stdout);
}

kolo::methods::ParameterServerSettings settings_of(const Options& options, const Plan& plan, int server) {
  kolo::methods::ParameterServerSettings settings;
  settings.make_optimizer = [&](const std::vector<at::Tensor>& parameters) {
    return make_optimizer(options, parameters);
  };
  settings.before_update = [&](torch::optim::Optimizer& optimizer,
                               const kolo::methods::ServerProgress& progress) {
    kolo::set_learning_rate(optimizer, plan.rate(progress.pushes));
  };
  settings.note = [server](const std::string& text) { say(server, text); };
  settings.checkpoint_every = options.checkpoint_every;
  if (options.checkpoint.empty()) return settings;
  std::filesystem::create_directories(options.checkpoint);
  settings.checkpoint = options.checkpoint + "/server" + std::to_string(server);
  return settings;
}

}  // namespace

std::shared_ptr<kolo::Store> open_store(const kolo::Launch& launch) {
  return kolo::methods::parameter_server_store(launch, std::chrono::minutes(1));
}

nlohmann::json serve(const Options& options, const kolo::Launch& launch, std::shared_ptr<kolo::Store> store) {
  at::set_num_threads(1);
  torch::manual_seed(options.seed);
  kolo::methods::ParameterServerOptions rules = server_options(options);
  std::optional<Plan> plan;
  kolo::methods::ParameterServerSettings settings;
  try {
    if (const int workers = launch.size - options.servers; workers > 0) {
      plan = make_plan(options, workers);
      settings = settings_of(options, *plan, launch.rank);
    }
  } catch (const std::exception& error) {
    rules.problem = error.what();
  }
  const fashion_mnist::Net net;
  kolo::methods::ParameterServer server(std::move(store), launch.rank, launch.size, *net, rules, settings);
  say(launch.rank, "serves as process " + std::to_string(::getpid()));
  const kolo::methods::ParameterServerStatistics& statistics = server.serve();
  return {{"updates", statistics.updates},   {"staleness", statistics.staleness},
          {"dropped", statistics.dropped},   {"divided", statistics.divided},
          {"repeated", statistics.repeated}, {"lost", statistics.lost}};
}

}  // namespace parameter_server
