// kolo plan training: the predicted time and memory of each way to train a model.
#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "options.hpp"
#include "plan/quantities.hpp"
#include "plan/subcommands.hpp"
#include "plan/training/ranking.hpp"
#include "text/columns.hpp"
#include "text/json_lines.hpp"
#include "text/refuse.hpp"

namespace kolo::plan {
namespace {

constexpr int kMostRanks = 128;

constexpr const char* kTrainingExamples =
    R"(Example: a model that train_pipeline --profile model.json has measured:
  kolo plan training --model model.json --hosts 4 --rate 1gbit --memory 8GiB

The file is JSON: "name", "batch" (the samples that times and bytes are for) and
"layers", a list of objects such as
  {"name": "block 1", "parameters": 789760, "activation_bytes": 9437184,
   "output_bytes": 524288, "forward_ms": 12.5, "backward_ms": 24.8,
   "optimizer_ms": 0.4, "tensor_sums": 1048576}

activation_bytes are kept for backward, output_bytes go to the next layer.
optimizer_ms may be absent. tensor_sums are the bytes that all ranks of a group
add up in forward, and again in backward, where the layer is divided among them
(Megatron); 0 or absent: it cannot be divided. A layer's time counts in
proportion to its samples: let the profile's batch be about as large as a
micro-batch.

All ways make the same step of --samples, so their times compare. ">" marks the
fastest way, "-" those that do not fit into --memory.
  computing   what a rank computes, on average (--wide)
  waiting     for other stages of a pipeline
  messages    by how much communication makes the step longer
  memory      of the rank that needs most: parameters, gradients, optimizer's
              state and activations, without the program itself

Ranks that share a layer follow one another, then replicas, then stages. Each
rank computes on cores of its own.)";

struct TrainingRequest {
  std::string model, hosts, rate, memory;
  std::string ranks_per_host = "1";
  std::string payload = "1";
  std::string samples, micro_batches;
  std::string optimizer = "adam";
  std::string json;
  bool wide = false;
};

struct NamedOptimizer {
  const char* name;
  double state_per_parameter;
};
constexpr NamedOptimizer kOptimizers[] = {{"sgd", 0}, {"momentum", 4}, {"adam", 8}};

Cluster cluster_of(const TrainingRequest& request) {
  Cluster cluster;
  cluster.hosts = static_cast<int>(parse_count("--hosts", request.hosts, 1, kMostRanks));
  cluster.ranks_per_host =
      static_cast<int>(parse_count("--ranks-per-host", request.ranks_per_host, 1, kMostRanks));
  if (cluster.ranks() < 2 || cluster.ranks() > kMostRanks) {
    cli::refuse("{} hosts of {} ranks: a job has 2 to {} ranks", cluster.hosts, cluster.ranks_per_host,
                kMostRanks);
  }
  if (request.rate.empty() && cluster.hosts > 1)
    cli::refuse("several --hosts need --rate, what each host's link carries");
  if (!request.rate.empty()) cluster.bytes_per_second = payload_rate(request.rate, request.payload);
  return cluster;
}

double state_of(const std::string& name) {
  std::string known;
  for (const NamedOptimizer& optimizer : kOptimizers) {
    if (name == optimizer.name) return optimizer.state_per_parameter;
    known += (known.empty() ? "" : ", ") + std::string(optimizer.name);
  }
  cli::refuse("--optimizer {}: it is one of {}", name, known);
}

Job job_of(const TrainingRequest& request) {
  constexpr std::uint64_t kMostSamples = 1'000'000'000;
  Job job;
  job.cluster = cluster_of(request);
  job.state_per_parameter = state_of(request.optimizer);
  if (!request.memory.empty()) job.memory = static_cast<double>(parse_bytes("--memory", request.memory));
  job.profile = read_profile(request.model);
  const auto ranks = static_cast<std::uint64_t>(job.cluster.ranks());
  job.samples = request.samples.empty() ? job.profile.batch * ranks
                                        : parse_count("--samples", request.samples, 1, kMostSamples);
  if (job.samples % ranks != 0) {
    cli::refuse("--samples {} cannot be divided among {} ranks evenly", job.samples, ranks);
  }
  if (!request.micro_batches.empty()) {
    const std::uint64_t count = parse_count("--micro-batches", request.micro_batches, 1, kMostSamples);
    if (job.samples / ranks % count != 0) {
      cli::refuse("--micro-batches {} do not divide the {} samples of a step and rank evenly", count,
                  job.samples / ranks);
    }
    job.micro_batches = static_cast<int>(count);
  }
  return job;
}

nlohmann::json to_json(const Job& job, const RankedWay& ranked) {
  const auto& [way, time, memory, fits, reason] = ranked;
  return {{"way", name_of(way)},
          {"data", way.data},
          {"tensor", way.tensor},
          {"stages", way.stages},
          {"first_layers", way.first_layers},
          {"stage_names", stage_names(job, way)},
          {"micro_batches", way.micro_batches},
          {"step_seconds", time.step},
          {"computing_seconds", time.computing},
          {"repeated_seconds", time.repeated},
          {"waiting_seconds", time.waiting},
          {"message_seconds", time.communication},
          {"memory_bytes", memory.total()},
          {"parameter_bytes", memory.parameters},
          {"gradient_bytes", memory.gradients},
          {"optimizer_bytes", memory.optimizer},
          {"activation_bytes", memory.activations},
          {"fits", fits},
          {"reason", reason}};
}

std::string json_of(const Job& job, const std::vector<RankedWay>& ranking) {
  nlohmann::json ways = nlohmann::json::array();
  for (const RankedWay& ranked : ranking) ways.push_back(to_json(job, ranked));
  return nlohmann::json{{"model", job.profile.name},    {"hosts", job.cluster.hosts},
                        {"ranks", job.cluster.ranks()}, {"bytes_per_second", job.cluster.bytes_per_second},
                        {"samples", job.samples},       {"ways", ways}}
      .dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace

void add_training(CLI::App& plan) {
  const auto request = std::make_shared<TrainingRequest>();
  CLI::App* training = plan.add_subcommand("training", "Rank the ways to train a model by time and memory");
  training->footer(kTrainingExamples);
  cli::add_value(*training, "--model", request->model, "FILE",
                 "What each layer computes, keeps and sends, as JSON (below)")
      ->required();
  cli::add_value(*training, "--hosts", request->hosts, "N", "How many hosts")->required();
  cli::add_value(*training, "--ranks-per-host", request->ranks_per_host, "N", "How many ranks on each host");
  cli::add_value(*training, "--rate", request->rate, "RATE",
                 "The rate of each host's link, each way: 1gbit, 1.2GB/s");
  cli::add_value(*training, "--payload", request->payload, "SHARE",
                 "The share of the rate that is payload; 0.956 for TCP over Ethernet");
  cli::add_value(*training, "--memory", request->memory, "SIZE", "The memory that a rank has: 8GiB");
  cli::add_value(*training, "--optimizer", request->optimizer, "NAME",
                 "sgd, momentum or adam: 0, 4 or 8 bytes of state for each parameter");
  cli::add_value(*training, "--samples", request->samples, "N",
                 "Samples of a step, all ranks together (default: the profile's batch for each rank)");
  cli::add_value(*training, "--micro-batches", request->micro_batches, "N",
                 "Micro-batches of each pipeline in a step (default: the fastest number that fits)");
  cli::add_wide(*training, request->wide);
  cli::add_json(*training, request->json, "one object, in seconds and bytes");
  training->callback([request, &plan] {
    refuse_options_before(plan, "training");
    const Job job = job_of(*request);
    const std::vector<RankedWay> ranking = ranking_of(job);
    cli::JsonLines json(request->json);
    json.write(json_of(job, ranking));
    if (!json.replaces_text())
      fmt::print("{}", training_table(job, ranking, cli::table_width(request->wide)));
  });
}

}  // namespace kolo::plan
