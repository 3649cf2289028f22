// kolo trace: merges the timelines that ranks have written.
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <exception>
#include <filesystem>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "base/status.hpp"
#include "base/whole_file.hpp"
#include "commands.hpp"
#include "options.hpp"
#include "text/columns.hpp"
#include "text/refuse.hpp"
#include "trace/merge.hpp"

namespace kolo::cli {
namespace {

using timelines::RankTimeline;
using timelines::Waiting;

constexpr std::size_t kMostRows = 10;

constexpr const char* kTraceExamples = R"(Examples:
  KOLO_TIMELINE=$PWD/t kolo run -n 4 -- ./train
  kolo trace merge t/*.json -o job.json

At its end each rank writes t/rank-R-GROUP.json; open job.json in a browser, at
https://ui.perfetto.dev (it sends the file nowhere). Of a job on several hosts,
bring the files together first (scp 'b:t/*.json' t/).

Each rank is a process in the picture. "communication" has the operations,
"waiting" the times when nothing moved and the ranks that were waited for. Each
link has two tracks, "to rank 3" and "from rank 3", with the messages that
moved. Calls that overlap get further rows of their track. The command prints
which rank waited for which one and for how long, and the rank that delayed the
job most: for which the other ranks waited longest, less the time it waited.

Ranks of one host share a clock. Hosts are aligned by their wall clocks, so the
difference of these shows: 'kolo doctor --hosts a,b' measures it, and NTP or PTP
keep it small. Files must be of one job: the end of the name tells.)";

struct MergeRequest {
  std::vector<std::string> files;
  std::string output;
};

void print_waiting(const std::vector<RankTimeline>& ranks, const Waiting& waiting) {
  std::vector<std::pair<double, std::pair<int, int>>> rows;
  for (const auto& [pair, time] : waiting.seconds) rows.emplace_back(time, pair);
  std::sort(rows.rbegin(), rows.rend());
  if (rows.empty()) {
    fmt::print("No rank waited for another rank so long that its timeline recorded it.\n");
    return;
  }
  std::map<int, std::string> hosts;
  for (const RankTimeline& one : ranks) hosts[one.rank] = one.host;
  const auto name = [&](int rank) {
    const auto host = hosts.find(rank);
    return host == hosts.end() ? fmt::format("{}", rank) : fmt::format("{} on {}", rank, host->second);
  };
  fmt::print("{:<24} {:<24} {:>10} {:>14}\n", "rank", "waited for rank", "seconds", "of its time");
  for (const auto& [time, pair] : std::vector(
           rows.begin(), rows.begin() + static_cast<std::ptrdiff_t>(std::min(kMostRows, rows.size())))) {
    const double span = waiting.span.at(pair.first);
    fmt::print("{:<24} {:<24} {:>10.3f} {:>12.0f} %\n", name(pair.first), name(pair.second), time,
               span > 0 ? 100 * time / span : 0);
  }
  if (rows.size() > kMostRows) fmt::print("... and {} more pairs of ranks\n", rows.size() - kMostRows);
  if (const int slowest = waiting.straggler(); slowest >= 0) {
    const auto own = waiting.of_rank.find(slowest);
    const std::string told = fmt::format(
        "Rank {} delayed the job most: the other ranks waited {:.3f} s for it in all, and it waited {:.3f} s "
        "for them.",
        name(slowest), waiting.for_rank.at(slowest), own == waiting.of_rank.end() ? 0 : own->second);
    fmt::print("{}", wrapped(told, kTerminalWidth));
  }
}

/// Checks the output before the inputs are read, which may take minutes.
void check_output(const MergeRequest& request) {
  namespace fs = std::filesystem;
  std::error_code error;
  for (const std::string& path : request.files) {
    if (fs::equivalent(path, request.output, error))
      refuse("{} is one of the files to merge: it cannot be the output too", path);
  }
  const fs::path folder = fs::path(request.output).parent_path();
  const bool plain = !fs::exists(request.output, error) || fs::is_regular_file(request.output, error);
  if (plain && ::access(folder.empty() ? "." : folder.c_str(), W_OK) != 0)
    Status::from_errno("cannot write " + request.output, errno).throw_if_error();
}

/// Returns the number of events. After an error there is no file.
std::size_t write_merged(const std::vector<RankTimeline>& ranks, const std::string& path) {
  std::size_t events = 0;
  std::exception_ptr problem;  // of reading a rank's file
  const Status written = write_whole_file(path, [&](std::ostream& file) {
    try {
      events = timelines::merge(ranks, file);
    } catch (...) {
      problem = std::current_exception();
      file.setstate(std::ios::failbit);
    }
  });
  if (problem) std::rethrow_exception(problem);
  written.throw_if_error();
  return events;
}

void merge_files(const MergeRequest& request) {
  check_output(request);
  std::vector<RankTimeline> ranks;
  for (const std::string& path : request.files) ranks.push_back(timelines::read_timeline(path));
  timelines::check_together(ranks);
  const std::size_t events = write_merged(ranks, request.output);
  for (const RankTimeline& one : ranks) {
    if (one.dropped > 0)
      fmt::print(stderr, "kolo trace merge: {}\n",
                 with_code(fmt::format("the timeline of rank {} was full: its last {} spans are missing",
                                       one.rank, one.dropped)));
  }
  fmt::print("{}: {} ranks, {} events\n", request.output, ranks.size(), events);
  print_waiting(ranks, timelines::waiting_in(ranks));
}

}  // namespace

void add_trace(CLI::App& app) {
  const auto request = std::make_shared<MergeRequest>();
  CLI::App* trace = app.add_subcommand("trace", "Put the timelines of a job's ranks together");
  trace->require_subcommand(1);
  CLI::App* merge = trace->add_subcommand(
      "merge", "Merge the ranks' timelines into one, and tell which rank waited for which");
  trace->footer(kTraceExamples);
  merge->footer(kTraceExamples);
  merge->add_option("FILE", request->files, "The files of the ranks")->required()->expected(1, -1);
  add_value(*merge, "-o,--output", request->output, "FILE", "The merged file, a Chrome trace")->required();
  merge->callback([request] { merge_files(*request); });
}

}  // namespace kolo::cli
