// kolo doctor: examines this machine, other hosts, or the ranks as which a launcher started it.
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <climits>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/config.hpp"
#include "base/deadline.hpp"
#include "bench/processes.hpp"
#include "commands.hpp"
#include "doctor/examination.hpp"
#include "doctor/report.hpp"
#include "kolo/error.hpp"
#include "kolo/store.hpp"
#include "kolo/trouble.hpp"
#include "launch/launcher.hpp"
#include "net/random.hpp"
#include "options.hpp"
#include "text/json_lines.hpp"
#include "text/refuse.hpp"
#include "transport/host_mark.hpp"

namespace kolo::cli {
namespace {

using doctor::Examination;
using doctor::Facts;
using nlohmann::json;

constexpr const char* kDoctorExamples = R"(Examples:
  kolo doctor                         this machine, with two ranks
  kolo doctor --hosts a,b,c           over ssh, like 'kolo run --hosts'
  srun -N 4 kolo doctor               the ranks that a launcher starts
  kolo doctor --hosts a,b --json | jq .findings

Every rank dials every other at a real port with the job's key, both ways, over
the interface that a job would use. Then pairs of hosts (on one host: of ranks)
measure latency, bandwidth and clocks, one pair at a time. MTU, versions, keys,
limits, shared memory and huge pages are looked at, too. Each finding says what
to do about it. A rank that does not come is reported after 20 s, or after
KOLO_TIMEOUT if that is less; one that cannot be reached after 7 s.

Exit code: 1 when there is a problem, or a host cannot be reached; 0 with
warnings alone ('kolo help'). Under a launcher rank 0 prints, and has the code.)";

constexpr int kProblem = 1;
/// Time for all ranks to come.
std::chrono::nanoseconds meeting_time() {
  return std::min<std::chrono::nanoseconds>(std::chrono::seconds(20), config().timeout);
}
/// Time for one phase of all ranks; a dial without an answer takes 7 s.
std::chrono::nanoseconds patience_for(std::size_t ranks) {
  return std::chrono::seconds(30) + ranks * std::chrono::seconds(8);
}

struct DoctorRequest {
  int ranks = 2;
  std::string json;
  bool wide = false;
  std::vector<std::string> hosts;  ///< of a rank under --hosts: those of all ranks
  SshOptions remote;
};

/// One rank's part in an examination.
class Doctor {
 public:
  Doctor(std::shared_ptr<Store> store, const Launch& launch, const std::vector<std::string>& hosts)
      : store_(std::move(store)), me_(launch.rank) {
    seen_.size = launch.size;
    seen_.hosts = hosts;
    seen_.store = store_->describe();
  }

  /// Rank 0 has all results.
  Examination examine() {
    meet();
    const auto patience = patience_for(present_.size());
    store_->set(key("dials", me_), json(doctor::dial_all(*store_, present_, me_, mark_->name())).dump());
    if (me_ == 0) {
      for (const int rank : present_) {
        const auto dials = collect(key("dials", rank), patience);
        if (dials) seen_.dials.insert(seen_.dials.end(), dials->begin(), dials->end());
      }
      store_->set("pairs", json(pairs_to_measure()).dump());
    }
    measure(patience);
    return std::move(seen_);
  }

 private:
  static std::string key(const std::string& what, int number) { return fmt::format("{}/{}", what, number); }

  std::optional<json> collect(const std::string& name, std::chrono::nanoseconds patience) {
    try {
      return json::parse(store_->get(name, patience));
    } catch (const TimeoutError&) {
      return std::nullopt;  // its rank has died: its results are missing
    }
  }

  /// The ranks that come in time take part; rank 0 decides which ranks these are.
  void meet() {
    if (me_ == 0) store_->set("job", net::random_hex(12));
    mark_.emplace(store_->get("job", 2 * meeting_time()), me_, seen_.size);
    store_->set(key("facts", me_), json(doctor::gather_facts(me_, mark_->name())).dump());
    if (me_ == 0) {
      std::vector<std::string> all;
      for (int rank = 0; rank < seen_.size; ++rank) all.push_back(key("facts", rank));
      const auto missing = store_->wait(all, meeting_time());
      for (int rank = 0; rank < seen_.size; ++rank) {
        if (std::find(missing.begin(), missing.end(), all[static_cast<std::size_t>(rank)]) == missing.end()) {
          present_.push_back(rank);
        }
      }
      store_->set("present", json(present_).dump());
    }
    json::parse(store_->get("present", 2 * meeting_time())).get_to(present_);
    if (std::find(present_.begin(), present_.end(), me_) == present_.end()) {
      throw RendezvousError(fmt::format("rank {} came too late for the examination", me_), {});
    }
    for (const int rank : present_) {
      seen_.ranks.push_back(json::parse(store_->get(key("facts", rank), meeting_time())).get<Facts>());
    }
  }

  bool reaches(int from, int to) const {
    return std::any_of(seen_.dials.begin(), seen_.dials.end(), [&](const doctor::Dial& dial) {
      return dial.from == from && dial.to == to && dial.outcome == "ok";
    });
  }

  std::vector<std::pair<int, int>> pairs_to_measure() const {
    std::vector<int> ranks = seen_.leaders();
    if (ranks.size() == 1) ranks = present_;
    std::vector<std::pair<int, int>> pairs;
    for (std::size_t i = 0; i < ranks.size(); ++i) {
      for (std::size_t j = i + 1; j < ranks.size(); ++j) {
        if (reaches(ranks[i], ranks[j]) && reaches(ranks[j], ranks[i]))
          pairs.emplace_back(ranks[i], ranks[j]);
      }
    }
    return pairs;
  }

  /// One pair at a time, so that pairs do not disturb each other.
  void measure(std::chrono::nanoseconds patience) {
    std::vector<std::pair<int, int>> pairs;
    json::parse(store_->get("pairs", patience * 2)).get_to(pairs);
    int number = 0;
    for (const auto& [from, to] : pairs) {
      ++number;
      if (me_ != from && me_ != to && me_ != 0) continue;
      if (number > 1) collect(key("measured", number - 1), patience);
      if (me_ == from || me_ == to) {
        const auto pair = doctor::measure_pair(make_prefix_store(key("pair", number), store_), from, to, me_);
        if (me_ == from) store_->set(key("measured", number), json(pair).dump());
      }
      if (me_ != 0) continue;
      if (const auto pair = collect(key("measured", number), patience)) seen_.pairs.push_back(*pair);
    }
    // Rank 0 may serve the store, so it waits until all ranks have finished.
    store_->set(key("left", me_), "");
    std::vector<std::string> all;
    for (const int rank : present_) all.push_back(key("left", rank));
    if (me_ == 0) store_->wait(all, meeting_time());
  }

  std::shared_ptr<Store> store_;
  const int me_;
  std::optional<transport::HostMark> mark_;
  std::vector<int> present_;
  Examination seen_;
};

int examine_as_rank(const DoctorRequest& request) {
  const Launch launch = launch_from_environment();
  Examination examination;
  try {
    examination = Doctor(store_from_environment(launch, meeting_time()), launch, request.hosts).examine();
  } catch (const Error& error) {
    char host[HOST_NAME_MAX + 1] = "?";
    ::gethostname(host, sizeof host);
    fmt::print(stderr, "kolo doctor: rank {} on {} cannot take part: {}\n", launch.rank, host,
               with_code(error.what()));
    // Rank 0 reports the missing rank. After a failure, most launchers would end the other ranks first.
    return launch.rank == 0 ? kProblem : 0;
  }
  if (launch.rank != 0) return 0;
  const auto findings = doctor::judge(examination);
  cli::JsonLines json(request.json);
  json.write(doctor::report_json(examination, findings));
  if (!json.replaces_text()) fmt::print("{}", doctor::report_text(examination, findings, request.wide));
  return std::any_of(findings.begin(), findings.end(), [](const auto& f) { return f.problem; }) ? kProblem
                                                                                                : 0;
}

int examine(const DoctorRequest& request) {
  LaunchOptions options;
  options.remote = request.remote;
  if (options.remote.hosts.empty() && launch_from_environment().launcher != "none")
    return examine_as_rank(request);
  options.ranks = request.ranks;
  options.prefix_output = false;
  options.quiet_code = kProblem;  // rank 0 has printed the reason
  // /proc/self/exe is the kolo that starts the ranks on their host.
  options.command = {options.remote.hosts.empty() ? bench::program_path() : "/proc/self/exe", "doctor"};
  // Rank 0 writes, on its own host.
  if (!options.remote.hosts.empty() && !request.json.empty() && request.json != "-")
    refuse("--json FILE would be a file of the first host; write --json > FILE");
  if (!request.json.empty()) options.command.push_back("--json=" + request.json);
  if (request.wide) options.command.push_back("--wide");
  for (const HostSlots& host : options.remote.hosts) {
    for (int rank = 0; rank < host.slots; ++rank) options.command.push_back("--rank-host=" + host.name());
  }
  const LaunchOutcome outcome = launch_ranks(options);
  return outcome.interrupted ? outcome.status() : std::min(outcome.status(), kProblem);
}

}  // namespace

void add_doctor(CLI::App& app) {
  const auto request = std::make_shared<DoctorRequest>();
  CLI::App* doctor = app.add_subcommand("doctor", "Find what keeps ranks from working together");
  doctor->footer(kDoctorExamples);
  auto* ranks = add_value(*doctor, "-n,--ranks", request->ranks, "N",
                          "How many ranks, on this machine; auto: one for each core")
                    ->check(CLI::Range(1, 256));
  accept_auto(ranks);
  add_wide(*doctor, request->wide);
  add_json(*doctor, request->json, "one object");
  doctor->add_option("--rank-host", request->hosts)->allow_extra_args(false)->group("");
  request->remote.add_to(*doctor);
  for (const char* elsewhere : {"--hosts", "--hosts-file", "--hosts-command"})
    ranks->excludes(doctor->get_option(elsewhere));
  doctor->callback([request] { throw CLI::RuntimeError(examine(*request)); });
}

}  // namespace kolo::cli
