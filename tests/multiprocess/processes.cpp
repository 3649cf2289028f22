#include "multiprocess/processes.hpp"

#include <poll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <sstream>
#include <stdexcept>
#include <thread>

namespace kolo::test {
namespace {

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

void say(int pipe, const std::string& text) {
  if (write(pipe, text.data(), text.size()) != static_cast<ssize_t>(text.size())) _exit(3);
}

template <typename E>
bool report(int pipe, const std::exception& error, const char* name) {
  const auto* typed = dynamic_cast<const E*>(&error);
  if (typed == nullptr) return false;
  say(pipe,
      std::to_string(now()) + " " + std::to_string(typed->context().peer) + " " + name + ": " + error.what());
  return true;
}

Communicator join_by_environment(int rank, const ProcessOptions& options, const Options& how) {
  for (const char* name : {"RANK", "LOCAL_RANK"}) ::setenv(name, std::to_string(rank).c_str(), 1);
  for (const char* name : {"WORLD_SIZE", "LOCAL_WORLD_SIZE"})
    ::setenv(name, std::to_string(options.size).c_str(), 1);
  if (options.prepare) options.prepare(rank);
  return Communicator::create(how);
}

Communicator join_in_file(const std::string& path, int rank, const ProcessOptions& options,
                          const Options& how) {
  auto store = make_file_store(path);
  if (options.prepare) options.prepare(rank);
  if (options.meet_in) store = options.meet_in(rank, std::move(store));
  const int size = options.size - options.newcomers;
  if (rank >= size) return Communicator::join(std::move(store), how);
  return Communicator::create(std::move(store), rank, size, how);
}

/// Never returns.
void be_rank(int pipe, const std::string& store, int rank, const ProcessOptions& options,
             const std::function<void(Communicator&)>& body) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  int code = 0;
  try {
    for (const auto& [name, value] : options.settings) ::setenv(name.c_str(), value.c_str(), 1);
    Options how{.timeout = options.timeout, .transports = options.transports, .key = options.key};
    if (options.adjust) options.adjust(rank, how);
    auto communicator = options.by_environment ? join_by_environment(rank, options, how)
                                               : join_in_file(store, rank, options, how);
    say(pipe, "ready\n");
    body(communicator);
    say(pipe, std::to_string(now()) + " -1 ");
  } catch (const std::exception& error) {
    code = 1;
    report<PeerLostError>(pipe, error, "PeerLostError") ||
        report<AbortedError>(pipe, error, "AbortedError") ||
        report<TimeoutError>(pipe, error, "TimeoutError") ||
        report<MismatchError>(pipe, error, "MismatchError") ||
        report<RendezvousError>(pipe, error, "RendezvousError") ||
        report<QuorumError>(pipe, error, "QuorumError") || report<SystemError>(pipe, error, "SystemError") ||
        report<Error>(pipe, error, "Error") ||
        (say(pipe, std::to_string(now()) + " -1 " + error.what()), true);
  }
  _exit(code);
}

}  // namespace

double processor_seconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

Processes::Processes(const ProcessOptions& options, const std::function<void(Communicator&)>& body) {
  std::string name = (std::filesystem::temp_directory_path() / "kolo-test-XXXXXX").string();
  if (mkdtemp(name.data()) == nullptr) throw std::runtime_error("mkdtemp");
  folder_ = name;
  for (int r = 0; r < options.size; ++r) {
    int ends[2];
    if (pipe(ends) != 0) throw std::runtime_error("pipe");
    const int pid = fork();
    if (pid == 0) {
      close(ends[0]);
      for (const Rank& other : ranks_) close(other.pipe);
      be_rank(ends[1], (folder_ / "store").string(), r, options, body);
    }
    close(ends[1]);
    ranks_.push_back({pid, ends[0], false, {}});
  }
}

Processes::~Processes() {
  for (Rank& rank : ranks_) {
    if (!rank.collected) {
      kill(rank.pid, SIGKILL);
      waitpid(rank.pid, nullptr, 0);
    }
    close(rank.pipe);
  }
  std::error_code ignored;
  std::filesystem::remove_all(folder_, ignored);
}

void Processes::await_ready() {
  for (Rank& rank : ranks_) {
    pollfd waiting{rank.pipe, POLLIN, 0};
    char text[6];
    if (poll(&waiting, 1, 10'000) != 1 || read(rank.pipe, text, 6) != 6)
      throw std::runtime_error("a rank did not get ready");
  }
}

void Processes::hurt(int rank, int signal) {
  kill(ranks_[static_cast<std::size_t>(rank)].pid, signal);
  hurt_at_ = now();
}

RankEnd Processes::collect_one(int rank, std::chrono::seconds limit) {
  Rank& one = ranks_[static_cast<std::size_t>(rank)];
  if (one.collected) return one.end;
  std::string said;
  const double deadline = now() + static_cast<double>(limit.count());
  while (now() < deadline) {
    pollfd waiting{one.pipe, POLLIN, 0};
    if (poll(&waiting, 1, 50) != 1) continue;
    char text[4096];
    const ssize_t got = read(one.pipe, text, sizeof text);
    if (got <= 0) break;
    said.append(text, static_cast<std::size_t>(got));
  }
  if (now() >= deadline) {
    said = "still running";
    kill(one.pid, SIGKILL);
  }
  int status = 0;
  waitpid(one.pid, &status, 0);
  one.collected = true;
  one.end.exited = WIFEXITED(status);
  one.end.code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  one.end.signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
  if (said.rfind("ready\n", 0) == 0) said.erase(0, 6);
  std::istringstream words(said);
  double at = 0;
  if (words >> at >> one.end.blamed) {
    one.end.ended_at = at - hurt_at_;
    std::getline(words >> std::ws, one.end.error, '\0');
  } else {
    one.end.error = said;
  }
  return one.end;
}

std::vector<RankEnd> Processes::collect(std::chrono::seconds limit, const std::vector<int>& except) {
  std::vector<RankEnd> ends;
  for (int r = 0; r < static_cast<int>(ranks_.size()); ++r) {
    if (std::find(except.begin(), except.end(), r) == except.end()) ends.push_back(collect_one(r, limit));
  }
  return ends;
}

}  // namespace kolo::test
