// kolo_stress: ranks that are killed and stopped at random moments, round after round; and with --events
// elastic jobs, to which others come.
#include <sys/wait.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <random>
#include <set>

#include "stress/control.hpp"
#include "stress/job.hpp"
#include "stress/round.hpp"

namespace kolo::stress {
namespace {

constexpr const char* kWhat =
    R"(Kills and stops ranks at random moments, round after round.

Each round starts real processes that meet and make random calls: all_reduce, broadcast, all_gather,
reduce_scatter and barrier, of 4 bytes to --bytes, in place and not, blocking and asynchronous, in library
memory and private memory, on several communicators; they look at every result. At a random moment one or two
of them get SIGKILL or SIGSTOP. A round is right when

  - every survivor ends with an error that names a rank that was hit: within --grace of a kill, within
    --timeout plus --grace of a stop (and without an error where the stopped one goes on before that);
  - where ranks were killed in calls, those that are left go on together, in every second round: shrink() leaves out
    the dead and nobody else, and sums are right again within --grace of the last kill and their error;
  - no call that succeeded gave a wrong result;
  - nobody writes in a survivor's buffers from then on, even when the stopped rank goes on;
  - the survivors end with the descriptors, mappings and threads that they began with, and no process, file
    or name is left.

With --events it runs elastic jobs instead, of one to six processes, which make the same calls: processes are
killed (rank 0 and who serves the store, too, and some just as others return from regroup()), stopped, cut off
from another one, and others come with join(), some of whom must be refused. An event is right when all that
live soon have sums together, in one group without anybody else.)";

constexpr const char* kFooter = R"(Examples:
  kolo_stress --rounds 1000                 a thousand rounds with 2 to 4 ranks
  kolo_stress --ranks 8 --seconds 60        a minute with 8 ranks
  kolo_stress --events 10000 --transports shm,tcp --bytes 64K     elastic jobs
  kolo_stress --seed 7 --first 41 --rounds 1   round 41 of that seed again (what follows from its seed is
                                            the same; the moment of the hit is so only by the clock)

On a machine that is busy with other things, ranks may take longer than --timeout to answer each other, and an
error is then what they must get: give more of it; with --events, more --heartbeat and --patience. Beside
compilers, at a low priority, a process may wait half a second for each turn on a core, and a minute to start.

Exit codes:
  0  every round, or event, was right
  1  some were not, or in one of ten the ranks did not even meet
  2  wrong usage)";

struct Settings {
  std::uint64_t seed = std::random_device()();
  std::uint64_t first = 0;
  std::uint64_t rounds = 0;
  std::uint64_t events = 0;
  double heartbeat = 1.5;
  double patience = 30;
  double seconds = 0;
  std::vector<int> ranks = {2, 3, 4};
  double timeout = 2;
  double grace = 1;
  std::uint64_t bytes = 8 << 20;
  std::vector<std::string> transports = {"shm"};
  std::vector<Fault> faults;
  bool hold = false;
};

/// Names in places where things outlive processes.
std::set<std::string> traces() {
  std::set<std::string> names;
  const auto add = [&](const std::filesystem::path& folder, const std::string& prefix) {
    std::error_code error;
    for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
      if (entry.path().filename().string().starts_with(prefix)) names.insert(entry.path().string());
    }
  };
  add("/dev/shm", "kolo");
  add(std::filesystem::temp_directory_path(), folder_prefix());
  return names;
}

struct Tally {
  std::array<std::uint64_t, kFaults> rounds{};
  std::array<std::vector<double>, kFaults> notice_times;
  std::array<std::vector<double>, kFaults> shrink_times;
  std::uint64_t all = 0;
  std::uint64_t wrong = 0;
  std::uint64_t unmet = 0;
  std::uint64_t steps = 0;

  void add(const Plan& plan, const Outcome& outcome);
  void print() const;
};

void Tally::add(const Plan& plan, const Outcome& outcome) {
  const auto fault = static_cast<std::size_t>(plan.fault);
  ++all;
  ++rounds[fault];
  wrong += !outcome.faults.empty();
  unmet += !outcome.met;
  steps += outcome.steps;
  notice_times[fault].insert(notice_times[fault].end(), outcome.notice_times.begin(),
                             outcome.notice_times.end());
  shrink_times[fault].insert(shrink_times[fault].end(), outcome.shrink_times.begin(),
                             outcome.shrink_times.end());
}

/// How many, their median, 99th percentile and maximum; nothing where there are none.
void print_times(std::vector<double> times) {
  if (times.empty()) return;
  std::sort(times.begin(), times.end());
  std::printf("   %10zu %10.1f %10.1f %10.1f", times.size(), 1e3 * times[times.size() / 2],
              1e3 * times[times.size() * 99 / 100], 1e3 * times.back());
}

void Tally::print() const {
  constexpr const char* kColumns[] = {"survivors", "median ms", "p99 ms", "longest ms"};
  std::printf("%-14s %8s    %-44s    %s\n", "", "", "from the kill to the error",
              "from there to a sum of those left");
  std::printf("%-14s %8s", "fault", "rounds");
  for (int i = 0; i < 2; ++i) {
    std::printf("  ");
    for (const char* column : kColumns) std::printf(" %10s", column);
  }
  std::printf("\n");
  for (std::size_t fault = 0; fault < kFaults; ++fault) {
    if (rounds[fault] == 0) continue;
    std::printf("%-14s %8llu", name_of(static_cast<Fault>(fault)),
                static_cast<unsigned long long>(rounds[fault]));
    print_times(notice_times[fault]);
    print_times(shrink_times[fault]);
    std::printf("\n");
  }
  std::printf("after a stop: from the deadline that follows it\n");
}

std::chrono::nanoseconds time_of(double seconds) {
  return std::chrono::nanoseconds(static_cast<std::int64_t>(1e9 * seconds));
}

std::uint64_t seed_of(const Settings& settings, std::uint64_t number) {
  return Random(settings.seed * 1'000'003 + number).next();
}

/// Whether all was right.
bool run_rounds(const Settings& settings) {
  const Limits limits{settings.bytes, time_of(settings.timeout), time_of(settings.grace), settings.transports,
                      settings.faults};
  const double begun = now();
  double told = begun;
  Tally tally;
  for (std::uint64_t i = settings.first;; ++i) {
    if (settings.rounds > 0 ? tally.all == settings.rounds : now() - begun >= settings.seconds) break;
    const int ranks = settings.ranks[i % settings.ranks.size()];
    const Plan plan = Plan::make(seed_of(settings, i), ranks, limits);
    const Outcome outcome = run_round(plan, limits, settings.hold);
    tally.add(plan, outcome);
    if (!outcome.faults.empty()) {
      std::printf("round %llu is wrong (%d ranks, %s, %s); again: --seed %llu --first %llu --rounds 1\n",
                  static_cast<unsigned long long>(i), plan.ranks, plan.transport.c_str(), name_of(plan.fault),
                  static_cast<unsigned long long>(settings.seed), static_cast<unsigned long long>(i));
      for (const Hit& hit : plan.hits)
        std::printf("  rank %d got signal %d after %.3f ms\n", hit.rank, hit.signal,
                    std::chrono::duration<double, std::milli>(hit.after).count());
      for (const std::string& what : outcome.faults) std::printf("  %s\n", what.c_str());
    }
    if (now() - told > 2) {
      told = now();
      std::printf("%8.0f s: %llu rounds, %llu wrong\n", told - begun,
                  static_cast<unsigned long long>(tally.all), static_cast<unsigned long long>(tally.wrong));
    }
    std::fflush(stdout);
  }
  tally.print();
  if (tally.unmet > 0) {
    std::printf("in %llu rounds the ranks did not all meet within --timeout, and none was hit\n",
                static_cast<unsigned long long>(tally.unmet));
  }
  std::printf("%llu rounds, %llu steps, %llu wrong, %.0f s\n", static_cast<unsigned long long>(tally.all),
              static_cast<unsigned long long>(tally.steps), static_cast<unsigned long long>(tally.wrong),
              now() - begun);
  const bool enough_met = tally.unmet * 10 <= tally.all;
  return tally.wrong == 0 && enough_met;
}

/// Whether all was right.
bool run_jobs(const Settings& settings) {
  constexpr std::uint64_t kEventsOfJob = 100;
  const JobLimits limits{{settings.bytes, time_of(settings.patience * 2 / 3), {}, settings.transports, {}},
                         settings.heartbeat,
                         settings.patience};
  const double begun = now();
  double told = begun;
  JobOutcome all;
  std::uint64_t wrong = 0;
  for (std::uint64_t i = settings.first; all.events < settings.events; ++i) {
    const JobOutcome outcome =
        run_job(seed_of(settings, i), std::min(kEventsOfJob, settings.events - all.events), limits);
    for (std::size_t event = 0; event < kEvents; ++event)
      all.times[event].insert(all.times[event].end(), outcome.times[event].begin(),
                              outcome.times[event].end());
    all.events += outcome.events;
    all.sums += outcome.sums;
    all.left_out += outcome.left_out;
    all.joined_again += outcome.joined_again;
    if (!outcome.faults.empty()) {
      ++wrong;
      std::printf("job %llu is wrong; again: --seed %llu --first %llu --events %llu\n",
                  static_cast<unsigned long long>(i), static_cast<unsigned long long>(settings.seed),
                  static_cast<unsigned long long>(i), static_cast<unsigned long long>(outcome.events));
      for (const std::string& what : outcome.faults) std::printf("  %s\n", what.c_str());
    }
    if (now() - told > 10) {
      told = now();
      std::printf("%8.0f s: %llu events, %llu wrong\n", told - begun,
                  static_cast<unsigned long long>(all.events), static_cast<unsigned long long>(wrong));
    }
    std::fflush(stdout);
  }
  std::printf("%-14s %10s %10s %10s %10s\n", "event", "times", "median ms", "p99 ms", "longest ms");
  for (int event = 0; event < kEvents; ++event) {
    std::printf("%-14s", name_of(static_cast<Event>(event)));
    print_times(all.times[static_cast<std::size_t>(event)]);
    std::printf("\n");
  }
  std::printf(
      "%llu events, %llu groups' sums, %llu wrong, %.0f s; %d times a process was left out, %d times a "
      "newcomer's group did not come about\n",
      static_cast<unsigned long long>(all.events), static_cast<unsigned long long>(all.sums),
      static_cast<unsigned long long>(wrong), now() - begun, all.left_out, all.joined_again);
  return wrong == 0;
}

int run(const Settings& settings) {
  setenv("KOLO_TABLE", "none", 1);
  const std::set<std::string> before = traces();
  std::printf("seed %llu\n", static_cast<unsigned long long>(settings.seed));
  if (settings.events > 0) setenv("KOLO_HEARTBEAT", std::to_string(settings.heartbeat).c_str(), 1);
  const bool is_right = settings.events > 0 ? run_jobs(settings) : run_rounds(settings);
  bool is_clean = true;
  if (waitpid(-1, nullptr, WNOHANG) != -1 || errno != ECHILD) {
    std::printf("a process was left behind\n");
    is_clean = false;
  }
  for (const std::string& name : traces()) {
    if (before.contains(name)) continue;
    std::printf("new: %s\n", name.c_str());
    is_clean = false;
  }
  return is_right && is_clean ? 0 : 1;
}

}  // namespace
}  // namespace kolo::stress

int main(int argc, char** argv) {
  kolo::stress::Settings settings;
  CLI::App app(kolo::stress::kWhat, "kolo_stress");
  app.footer(kolo::stress::kFooter);
  app.add_option("--seed", settings.seed, "Where all that is random comes from (printed at the start)");
  app.add_option("--first", settings.first, "The number of the first round, or job")->capture_default_str();
  app.add_option("--rounds", settings.rounds, "How many rounds");
  app.add_option("--events", settings.events, "Elastic jobs, until so many events have happened");
  app.add_option("--heartbeat", settings.heartbeat, "Theirs, in seconds")
      ->check(CLI::Range(0.25, 100.0))
      ->capture_default_str();
  app.add_option("--patience", settings.patience,
                 "How long after an event all may take to have sums together")
      ->check(CLI::Range(1.0, 1e6))
      ->capture_default_str();
  app.add_option("--seconds", settings.seconds, "For how long, without --rounds (10)");
  app.add_option("--ranks", settings.ranks, "How many ranks; several numbers take turns")
      ->delimiter(',')
      ->check(CLI::Range(2, kolo::stress::kMostRanks))
      ->capture_default_str();
  app.add_option("--timeout", settings.timeout, "The communicators' timeout, in seconds")
      ->check(CLI::Range(0.3, 1000.0))
      ->capture_default_str();
  app.add_option("--grace", settings.grace, "How late an error may come, in seconds")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  app.add_option("--bytes", settings.bytes, "The longest call")
      ->transform(CLI::AsSizeValue(false))
      ->capture_default_str();
  app.add_option("--transports", settings.transports, "The transports that rounds choose from")
      ->delimiter(',')
      ->capture_default_str();
  std::map<std::string, kolo::stress::Fault> faults;
  for (int i = 0; i < kolo::stress::kFaults; ++i) {
    const auto fault = static_cast<kolo::stress::Fault>(i);
    faults[kolo::stress::name_of(fault)] = fault;
  }
  app.add_option("--faults", settings.faults, "The faults that rounds choose from (all)")
      ->delimiter(',')
      ->transform(CLI::CheckedTransformer(faults));
  app.add_flag("--hold", settings.hold,
               "Leaves the processes of the first wrong round alive, for a debugger");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  if (settings.seconds == 0) settings.seconds = 10;
  try {
    return kolo::stress::run(settings);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "kolo_stress: %s\n", error.what());
    return 1;
  }
}
