// kolo plan step: the predicted time of a training step with each way of averaging gradients.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <numeric>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/config.hpp"
#include "options.hpp"
#include "plan/quantities.hpp"
#include "plan/step.hpp"
#include "plan/subcommands.hpp"
#include "selection/chooser.hpp"
#include "text/columns.hpp"
#include "text/json_lines.hpp"
#include "text/refuse.hpp"
#include "transport/transport.hpp"

namespace kolo::plan {
namespace {

constexpr int kMaxWorkers = 1024;
constexpr std::string_view kAlgorithms[] = {"parameter_server:servers=1", "central", "halving_doubling",
                                            "ring"};

constexpr const char* kStepExamples =
    R"(Example: 300 million float32 parameters, 10 workers, links of 9.6 Gbit/s:
  kolo plan step --bytes 1.2GB --compute 300ms --hosts 10 --rate 9.6gbit

Rows:
  parameter_server:servers=1   worker 0 serves: all send it their gradients, and
                               it sends all of them the averages
  central                      a driver does the same, in the workers' order
  halving_doubling             partners exchange halves, quarters, ..., and
                               gather the averages the same way
  ring                         every worker sends to its neighbour only

">" marks what a call of kolo runs on such links; KOLO_ALGORITHM counts.

Columns of communication:
  in, out      what the busiest link needs in each direction
  overlapped   the longer one, as a link carries both at once
  in turns     their sum: a server that sends nothing before all has come
  expected     what an emulated cluster takes (docs/choosing.md compares)
  from, to     with --wide: if a server's connections advance alike
               (--unevenness 0), and if they take turns (1)

Columns of steps:
  exposed      the share of the step that waits for communication
  efficiency   with --wide: the time of one worker alone, over the step's
  speedup      with --wide: that, times the workers
  bottleneck   what takes longest; "processor": its work for messages

With overlap, buckets of gradients are averaged under backward, at best in
forward + max(backward, first bucket + communication) + optimizer.

Of an Ethernet's rate TCP gets 95.6 %: --payload 0.956. Or give the rate that
'kolo bench send_recv --sizes 16M' measures between two hosts.)";

struct StepRequest {
  std::string bytes, compute, hosts, rate;
  std::string backward = "67%";
  std::string payload = "1";
  std::string unevenness = fmt::format("{}", kTypicalUnevenness);
  std::string json;
  bool wide = false;
};

TrainingJob job_of(const StepRequest& request) {
  TrainingJob job;
  job.bytes = parse_bytes("--bytes", request.bytes);
  job.compute = parse_seconds("--compute", request.compute);
  job.workers =
      static_cast<int>(parse_count("--hosts", request.hosts, 2, kMaxWorkers, "the number of hosts,"));
  job.backward = job.compute * parse_share("--backward", request.backward);
  job.bytes_per_second = payload_rate(request.rate, request.payload);
  job.unevenness = parse_share("--unevenness", request.unevenness);
  return job;
}

/// The algorithm that a call runs on the job's links, from the environment or the cost model. The tuning
/// table is not used, because its times are for other links.
algorithms::ConfiguredAlgorithm chosen_for(const TrainingJob& job) {
  selection::Topology topology;
  topology.size = job.workers;
  topology.hosts.resize(static_cast<std::size_t>(job.workers));
  std::iota(topology.hosts.begin(), topology.hosts.end(), 0);
  topology.links_between = transport::fastest_transport(transport::Reach::network).name;
  topology.model.network.wire_per_byte = 1 / job.bytes_per_second;
  return selection::Chooser(std::move(topology)).choose({}, job.bytes, config().algorithm).value_or_throw();
}

std::vector<PricedRow> priced_rows(const TrainingJob& job) {
  const algorithms::ConfiguredAlgorithm chosen = chosen_for(job);
  std::vector<algorithms::ConfiguredAlgorithm> algorithms;
  for (const std::string_view text : kAlgorithms)
    algorithms.push_back(
        algorithms::parse_algorithm(schedule::Collective::all_reduce, text).value_or_throw());
  if (std::ranges::find(algorithms, chosen) == algorithms.end()) algorithms.push_back(chosen);
  std::vector<PricedRow> rows;
  for (const algorithms::ConfiguredAlgorithm& algorithm : algorithms)
    rows.push_back({price(job, algorithm), algorithm == chosen});
  return rows;
}

nlohmann::json to_json(const TrainingJob& job, const StepTime& step) {
  return {{"seconds", step.seconds},
          {"communication_share", step.communication},
          {"efficiency", step.efficiency},
          {"speedup", step.efficiency * job.workers},
          {"bottleneck", step.bottleneck}};
}

std::string json_of(const TrainingJob& job, const std::vector<PricedRow>& rows) {
  nlohmann::json algorithms = nlohmann::json::array();
  for (const auto& [communication, is_chosen] : rows) {
    algorithms.push_back({{"algorithm", communication.algorithm},
                          {"chosen", is_chosen},
                          {"in_seconds", communication.in},
                          {"out_seconds", communication.out},
                          {"overlapped_seconds", communication.both_at_once()},
                          {"in_turns_seconds", communication.in_turns()},
                          {"expected_seconds", communication.expected},
                          {"least_seconds", communication.least},
                          {"most_seconds", communication.most},
                          {"bottleneck", communication.bottleneck},
                          {"without_overlap", to_json(job, without_overlap(job, communication))},
                          {"with_overlap", to_json(job, with_overlap(job, communication))}});
  }
  return nlohmann::json{{"workers", job.workers},
                        {"bytes", job.bytes},
                        {"bytes_per_second", job.bytes_per_second},
                        {"compute_seconds", job.compute},
                        {"backward_seconds", job.backward},
                        {"unevenness", job.unevenness},
                        {"algorithms", algorithms}}
      .dump();
}

}  // namespace

void add_step(CLI::App& plan) {
  const auto request = std::make_shared<StepRequest>();
  CLI::App* step = plan.add_subcommand(
      "step", "Time a training step with a parameter server, a driver, a ring and others");
  step->footer(kStepExamples);
  cli::add_value(*step, "--bytes", request->bytes, "SIZE",
                 "Gradients of one worker: 1.2GB, 25MiB; 4 bytes for a float32 parameter")
      ->required();
  cli::add_value(*step, "--compute", request->compute, "TIME",
                 "Forward, backward and optimizer of a worker's step: 300ms, 1.5s")
      ->required();
  cli::add_value(*step, "--hosts", request->hosts, "N", "How many hosts, with one worker each")->required();
  cli::add_value(*step, "--rate", request->rate, "RATE",
                 "The rate of each host's link, each way: 9.6gbit, 1.2GB/s")
      ->required();
  cli::add_value(*step, "--payload", request->payload, "SHARE",
                 "The share of the rate that is payload; 0.956 for TCP over Ethernet");
  cli::add_value(*step, "--backward", request->backward, "SHARE", "The share of --compute that is backward");
  cli::add_value(*step, "--unevenness", request->unevenness, "SHARE",
                 "How unevenly a server's connections advance: 0 alike, 1 in turns");
  cli::add_wide(*step, request->wide);
  cli::add_json(*step, request->json, "one object, in seconds, bytes and shares");
  step->callback([request, &plan] {
    refuse_options_before(plan, "step");
    const TrainingJob job = job_of(*request);
    const std::vector<PricedRow> rows = priced_rows(job);
    cli::JsonLines json(request->json);
    json.write(json_of(job, rows));
    if (!json.replaces_text()) fmt::print("{}", step_tables(job, rows, cli::table_width(request->wide)));
  });
}

}  // namespace kolo::plan
