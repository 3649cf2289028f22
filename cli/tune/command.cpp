// kolo tune: measures the times on which the choice of algorithms depends, and writes them to the tuning
// table.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "bench/grid.hpp"
#include "bench/machine.hpp"
#include "bench/processes.hpp"
#include "bench/progress.hpp"
#include "bench/settings.hpp"
#include "commands.hpp"
#include "kolo/kolo.hpp"
#include "launch/launcher.hpp"
#include "options.hpp"
#include "selection/topology.hpp"
#include "text/json_lines.hpp"
#include "text/refuse.hpp"
#include "transport/transport.hpp"
#include "tune/bandwidth.hpp"

namespace kolo::cli {
namespace {

constexpr int kFailed = 1;
constexpr int kTuneUsage = 2;

constexpr const char* kTuneExamples = R"(Examples:
  kolo tune                              this machine; takes half an hour or so
  kolo tune --ranks 4 --transport shm    one setting only
  kolo tune --collectives all_gather,broadcast
  mpirun -n 8 kolo tune                  this cluster, and its links
  mpirun -n 8 kolo tune --only-bandwidths   some seconds: rings avoid slow links

Every algorithm runs at every size, in turns. The times go into the tuning
table, which every later run with as many ranks on as many hosts reads
(KOLO_TABLE, docs/running.md). 'kolo plan' shows what follows from it, and
'kolo bench --algorithm all' how good the choices are.

--json has the lines of 'kolo bench --algorithm all' (machine, result, choice),
one for each bandwidth, and at the end one that names the table.

Exit code: 1 when a result is wrong ('kolo help').)";

struct TuneRequest {
  std::vector<int> ranks = {2, 3, 4, 8};
  std::vector<std::string> collectives = {"all_reduce"};
  std::vector<std::string> transports = transport::transport_names(transport::Reach::host);
  std::string sizes = "8,512,4K:16M:2,64M";
  std::string file;  ///< empty: the settings name it
  bool only_bandwidths = false;
  std::string json;
  bool wide = false;
};

double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

std::string own_machine_line() {
  return bench::machine_line(bench::this_machine(), version(), {});
}

/// The last line: where the times are.
std::string table_line(const std::string& file) {
  return nlohmann::ordered_json{{"type", "table"}, {"file", file}}.dump();
}

/// 0 bytes a second: unknown.
std::string bandwidth_line(const std::string& from, const std::string& to, double bytes_per_second) {
  nlohmann::ordered_json line{{"type", "bandwidth"}, {"from", from}, {"to", to}};
  line["bytes_per_second"] = nullptr;
  if (bytes_per_second > 0) line["bytes_per_second"] = bytes_per_second;
  return line.dump();
}

bench::Settings settings_for(const TuneRequest& request, const std::string& collective, int ranks) {
  bench::RawSettings raw;
  raw.collective = collective;
  raw.sizes = request.sizes;
  raw.algorithm = bench::kEveryAlgorithm;
  raw.ranks = ranks;
  raw.table = request.file;
  return bench::check_settings(raw);
}

int tune_as_rank(const TuneRequest& request) {
  Communicator communicator = Communicator::create();
  if (communicator.size() < 2) refuse("one rank has nothing to tune");
  const bool leads = communicator.rank() == 0;
  JsonLines json(leads ? request.json : "");
  const bool tells = leads && !json.replaces_text();
  const auto learn = [&](const std::function<void(selection::TuningTable&)>& change) {
    if (leads) selection::update_table(request.file, change).throw_if_error();
  };
  learn([](selection::TuningTable&) {});  // reports a file that cannot be written before the measurement
  json.write(own_machine_line());
  static const bool shows_progress = ::isatty(STDERR_FILENO) != 0;
  const auto bandwidths = tune::measure_bandwidths(communicator, [](int done, int of) {
    if (shows_progress) fmt::print(stderr, "\r\x1b[K  bandwidths: {} of {} pairs of hosts", done, of);
  });
  const selection::Topology& topology = situation_of(communicator);
  const selection::Setting setting = topology.setting();
  const selection::CostModel costs = measure_costs(communicator);
  selection::TuningTable links;
  for (const auto& [pair, bytes_per_second] : bandwidths) {
    const bool is_known = links.set_bandwidth(pair.first, pair.second, bytes_per_second);
    json.write(bandwidth_line(pair.first, pair.second, is_known ? bytes_per_second : 0));
    if (tells && !is_known)
      fmt::print("# left out: the bandwidth from {} to {} could not be measured\n", pair.first, pair.second);
  }
  learn([&](selection::TuningTable& table) {
    for (const auto& [pair, bytes_per_second] : bandwidths) {
      table.set_bandwidth(pair.first, pair.second, bytes_per_second);
    }
    table.set_model(setting, costs);
  });
  const std::vector<int> slow =
      selection::slow_hosts(selection::bandwidths_between(topology.host_names, links));
  if (tells && !slow.empty()) {
    std::vector<std::string> names;
    for (const int host : slow) names.push_back(topology.host_names[static_cast<std::size_t>(host)]);
    fmt::print("# hosts with slower links than the others: {}\n", fmt::join(names, ", "));
  }
  std::uint64_t wrong = 0;
  const auto begin = std::chrono::steady_clock::now();
  bench::Part part{.count = static_cast<int>(request.collectives.size())};
  for (const std::string& collective : request.collectives) {
    if (request.only_bandwidths) break;
    bench::Settings settings = settings_for(request, collective, communicator.size());
    settings.progress = leads && shows_progress;
    part.seconds = seconds_since(begin);
    settings.part = part.to_text();
    ++part.number;
    const bench::Grid grid = bench::measure_grid(settings, communicator, slow, json);
    wrong += grid.wrong;
    if (!leads) continue;
    if (tells) {
      fmt::print("# {}, {} ranks\n{}", collective, communicator.size(),
                 bench::grid_table(grid, request.wide));
    }
    learn([&](selection::TuningTable& table) { bench::learn(grid, settings.kind, setting, table); });
  }
  json.write(table_line(request.file));
  if (tells) fmt::print("# written to {}\n", request.file);
  return wrong == 0 ? 0 : kFailed;
}

/// The same measurement as `kolo bench --algorithm all`, once for each setting.
int tune_this_machine(const TuneRequest& request) {
  selection::update_table(request.file, [](selection::TuningTable&) {
  }).throw_if_error();  // reports a file that cannot be written before the measurement
  JsonLines json(request.json);
  json.write(own_machine_line());
  const auto begin = std::chrono::steady_clock::now();
  bench::Part part{.count = static_cast<int>(request.collectives.size() * request.transports.size() *
                                             request.ranks.size())};
  for (const std::string& collective : request.collectives) {
    for (const std::string& transport : request.transports) {
      for (const int ranks : request.ranks) {
        part.seconds = seconds_since(begin);
        LaunchOptions options;
        options.ranks = ranks;
        options.prefix_output = false;
        options.environment = {{"KOLO_TABLE", "none"}};  // the regret shown is the regret without a table
        options.command = {
            bench::program_path(), "bench",       collective, "--algorithm", "all",         "--ranks",
            std::to_string(ranks), "--transport", transport,  "--sizes",     request.sizes, "--learn",
            request.file};
        if (request.wide) options.command.push_back("--wide");
        if (!request.json.empty())
          options.command.insert(options.command.end(), {"--json=" + request.json, "--append"});
        if (::isatty(STDERR_FILENO) != 0)
          options.command.insert(options.command.end(), {"--progress", "--part", part.to_text()});
        ++part.number;
        const int status = launch_ranks(options).status();
        if (status != 0) return status;
      }
    }
  }
  json.write(table_line(request.file));
  if (!json.replaces_text())
    fmt::print("# written to {} after {:.0f} s\n", request.file, seconds_since(begin));
  return 0;
}

/// The conflict between the options and the ranks of this job; empty if there is none. `given`: the options
/// given.
std::string conflict(const TuneRequest& request, const Launch& launch,
                     const std::vector<std::string>& given) {
  if (launch.launcher != "none") {
    if (given.empty()) return {};
    return fmt::format("{}: only for ranks that kolo tune starts; these {} were started by something else",
                       given.front(), launch.size);
  }
  if (!request.only_bandwidths) return {};
  return "--only-bandwidths: it measures between the hosts of ranks that a launcher starts, as in 'kolo run "
         "--hosts a,b -- kolo tune --only-bandwidths'";
}

int run_tune(TuneRequest& request, const std::vector<std::string>& given) {
  const Launch launch = launch_from_environment();
  if (const std::string problem = conflict(request, launch, given); !problem.empty()) {
    fmt::print(stderr, "kolo tune: {}\n", with_code(problem, kWrongUsage));
    return kTuneUsage;
  }
  if (request.file.empty()) request.file = selection::table_path();
  if (request.file.empty()) {
    fmt::print(stderr, "kolo tune: there is no place for the table: name one with -o or KOLO_TABLE [{}]\n",
               kWrongUsage);
    return kTuneUsage;
  }
  for (const std::string& collective : request.collectives) settings_for(request, collective, 2);  // checks
  return launch.launcher == "none" ? tune_this_machine(request) : tune_as_rank(request);
}

}  // namespace

void add_tune(CLI::App& app) {
  const auto request = std::make_shared<TuneRequest>();
  CLI::App* tune = app.add_subcommand("tune", "Measure this machine, so that kolo chooses well");
  tune->footer(kTuneExamples);
  auto* ranks = add_value(*tune, "-n,--ranks", request->ranks, "LIST", "Numbers of ranks to start")
                    ->delimiter(',')
                    ->check(CLI::Range(2, kLargestJob));
  accept_auto(ranks);
  add_value(*tune, "--collectives", request->collectives, "LIST", "What to measure")->delimiter(',');
  auto* transport =
      add_value(*tune, "--transport", request->transports, "LIST", "Between ranks on this machine")
          ->delimiter(',')
          ->check(CLI::IsMember(transport::transport_names(transport::Reach::host)));
  add_value(*tune, "--sizes", request->sizes, "LIST",
            "Sizes of the whole data: 64K, 1.5MiB; ranges FROM:TO:FACTOR");
  add_value(*tune, "-o,--output", request->file, "FILE",
            "The tuning table (default: KOLO_TABLE's); it keeps what it has of other settings");
  tune->add_flag("--only-bandwidths", request->only_bandwidths,
                 "Over several hosts: measure what each can send to each other one, and no more");
  add_wide(*tune, request->wide);
  add_json(*tune, request->json, "an object a line");
  tune->callback([request, ranks, transport] {
    std::vector<std::string> given;
    for (const CLI::Option* option : {ranks, transport}) {
      if (option->count() > 0) given.push_back("--" + option->get_lnames().front());
    }
    throw CLI::RuntimeError(run_tune(*request, given));
  });
}

}  // namespace kolo::cli
