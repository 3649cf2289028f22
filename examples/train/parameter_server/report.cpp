#include "parameter_server/report.hpp"

#include <fmt/format.h>

#include <chrono>
#include <cmath>
#include <nlohmann/json.hpp>
#include <vector>

#include "support/summary_table.hpp"

namespace parameter_server {
namespace {

constexpr std::chrono::seconds kPatience{5};

std::string key_of(int rank) {
  return "result of rank " + std::to_string(rank);
}

/// Of what the first server counted.
double mean_staleness(const nlohmann::json& counts) {
  double sum = 0, pushes = 0;
  for (std::size_t age = 0; age < counts.size(); ++age) {
    sum += static_cast<double>(age) * counts[age].get<double>();
    pushes += counts[age].get<double>();
  }
  return pushes > 0 ? sum / pushes : 0;
}

nlohmann::json to_json(const Options& options) {
  return {{"servers", options.servers},
          {"rule", options.rule},
          {"staleness", options.staleness},
          {"late", options.late},
          {"push", options.push},
          {"local_steps", options.local_steps},
          {"epochs", options.epochs},
          {"batch", options.batch},
          {"learning_rate", options.learning_rate},
          {"momentum", options.momentum},
          {"weight_decay", options.weight_decay},
          {"seed", options.seed},
          {"limit", options.limit},
          {"compute_ms", options.compute_ms},
          {"slow_worker", options.slow_worker},
          {"slow_ms", options.slow_ms},
          {"seconds", options.seconds}};
}

}  // namespace

void leave(kolo::Store& store, int rank, const nlohmann::json& found) {
  store.set(key_of(rank), found.dump());
}

nlohmann::json gather_results(kolo::Store& store, const Options& options, int size) {
  nlohmann::json servers = nlohmann::json::array(), workers = nlohmann::json::array();
  std::vector<std::string> keys;
  for (int rank = 0; rank < size; ++rank) keys.push_back(key_of(rank));
  const auto missing = store.wait(keys, kPatience);
  double rate = 0;
  for (int rank = 0; rank < size; ++rank) {
    const auto& key = keys[static_cast<std::size_t>(rank)];
    if (std::ranges::find(missing, key) != missing.end()) continue;
    nlohmann::json found = nlohmann::json::parse(store.get(key, kPatience));
    if (rank >= options.servers) rate += found["images"].get<double>() / found["seconds"].get<double>();
    (rank < options.servers ? servers : workers).push_back(std::move(found));
  }
  nlohmann::json metrics = {{"options", to_json(options)}, {"images_per_second", rate}};
  if (!servers.empty()) {
    metrics["mean_staleness"] = mean_staleness(servers[0]["staleness"]);
    metrics["staleness_histogram"] = servers[0]["staleness"];
  }
  if (workers[0].contains("test_accuracy")) metrics["test_accuracy"] = workers[0]["test_accuracy"];
  metrics["servers"] = std::move(servers);
  metrics["workers"] = std::move(workers);
  return metrics;
}

std::string summary_table(const nlohmann::json& metrics) {
  support::SummaryTable table;
  if (metrics.contains("test_accuracy"))
    table.row("test accuracy", fmt::format("{:.2f} %", metrics["test_accuracy"].get<double>()));
  table.row("images per second", support::grouped(std::round(metrics["images_per_second"].get<double>())),
            "all workers together, without dropped pushes");
  for (const auto& server : metrics["servers"]) {
    table.row("updates", support::grouped(server["updates"].get<double>()),
              fmt::format("{} pushes dropped, {} divided by their age, {} workers lost",
                          server["dropped"].get<std::uint64_t>(), server["divided"].get<std::uint64_t>(),
                          server["lost"].size()));
  }
  if (metrics.contains("mean_staleness"))
    table.row("staleness", fmt::format("{:.2f}", metrics["mean_staleness"].get<double>()), "updates, mean");
  for (const auto& worker : metrics["workers"]) {
    const auto steps = static_cast<double>(worker["steps"].get<std::int64_t>());
    table.row(fmt::format("worker {}", worker["worker"].get<int>()), fmt::format("{} steps", steps),
              fmt::format("{:.1f} ms of {:.1f} ms a step with servers",
                          1e3 * worker["waiting_seconds"].get<double>() / steps,
                          1e3 * worker["seconds"].get<double>() / steps));
  }
  return std::move(table).text();
}

}  // namespace parameter_server
