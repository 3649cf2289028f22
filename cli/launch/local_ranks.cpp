#include "launch/local_ranks.hpp"

#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <string_view>

#include "launch/secret.hpp"

namespace kolo::cli {

Adoption::Adoption() {
  ::prctl(PR_GET_CHILD_SUBREAPER, &before_);
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
}

Adoption::~Adoption() {
  ::prctl(PR_SET_CHILD_SUBREAPER, before_);
}

LocalRanks::LocalRanks(LocalPart part, const sigset_t& signals, OutputTaker take)
    : part_(std::move(part)),
      signals_(signals),
      take_(std::move(take)),
      // The mark is not the job's key, because emulated hosts share a process table and each launcher part
      // must end only its own processes.
      mark_("kolo_run=" + random_secret()),
      keeper_(Keeper::start(mark_).value_or_throw()) {}

std::vector<std::string> LocalRanks::environment_for(int rank) const {
  std::map<std::string, std::string> variables;
  for (char** at = environ; *at; ++at) {
    const std::string_view entry(*at);
    const auto equals = entry.find('=');
    if (equals == std::string_view::npos) continue;
    // An outer launcher's store and key are not those of this job.
    if (entry.starts_with("TORCHELASTIC_") || entry.starts_with("KOLO_STORE") ||
        entry.starts_with("KOLO_KEY"))
      continue;
    variables[std::string(entry.substr(0, equals))] = entry.substr(equals + 1);
  }
  variables["RANK"] = std::to_string(part_.first_rank + rank);
  variables["WORLD_SIZE"] = std::to_string(part_.size);
  variables["LOCAL_RANK"] = std::to_string(rank);
  variables["LOCAL_WORLD_SIZE"] = std::to_string(part_.ranks);
  if (part_.size > 1) variables.try_emplace("OMP_NUM_THREADS", "1");
  for (const auto& [name, value] : part_.environment) variables[name] = value;

  std::vector<std::string> list = {mark_};
  for (const auto& [name, value] : variables) {
    if (!mark_.starts_with(name + "=")) list.push_back(name + "=" + value);
  }
  return list;
}

void LocalRanks::start() {
  Program program;
  program.arguments = part_.command;
  program.signals = signals_;
  Result<std::string> path = part_.command.empty() ? Status(Code::invalid_argument, "no program was named")
                                                   : find_program(part_.command[0]);
  if (path.ok()) program.path = path.value();
  Status status = path.status();
  ranks_.resize(static_cast<std::size_t>(part_.ranks));
  for (int r = 0; r < part_.ranks; ++r) {
    if (status.ok()) {
      Result<RankProcess> process = start_rank(program, environment_for(r));
      status = process.status();
      if (status.ok()) {
        ranks_[static_cast<std::size_t>(r)] = {process->pid, true, std::move(process->out),
                                               std::move(process->err)};
        continue;
      }
    }
    endings_.push_back({part_.first_rank + r, kCannotStart, 0, "cannot start " + status.message()});
    return;
  }
}

int LocalRanks::running() const {
  return static_cast<int>(
      std::count_if(ranks_.begin(), ranks_.end(), [](const Rank& r) { return r.running; }));
}

void LocalRanks::signal(int signal, bool groups) {
  for (const Rank& rank : ranks_) {
    // Ranks that have ended are skipped, because the system may have reused their process ids. finish() ends
    // the processes that they left.
    if (rank.running) ::kill(groups ? -rank.pid : rank.pid, signal);
  }
}

void LocalRanks::watch(std::vector<pollfd>& entries, Room room) {
  room_ = room;
  for (const Rank& rank : ranks_) {
    // poll(2) ignores negative descriptors.
    entries.push_back({room.out ? rank.out.get() : -1, POLLIN, 0});
    entries.push_back({room.err ? rank.err.get() : -1, POLLIN, 0});
  }
}

void LocalRanks::hear(std::span<const pollfd> entries) {
  for (std::size_t i = 0; i < entries.size(); ++i) {
    if (entries[i].revents != 0) read(i / 2, i % 2 == 0 ? Stream::out : Stream::err);
  }
}

bool LocalRanks::read(std::size_t index, Stream stream) {
  UniqueFd& fd = stream == Stream::out ? ranks_[index].out : ranks_[index].err;
  if (!fd.valid()) return false;
  std::array<char, 1 << 16> block;
  const ssize_t got = ::read(fd.get(), block.data(), block.size());
  const int rank = part_.first_rank + static_cast<int>(index);
  if (got > 0) take_(rank, stream, {block.data(), static_cast<std::size_t>(got)});
  if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR)) {
    take_(rank, stream, {});
    fd.reset();
  }
  return got > 0;
}

void LocalRanks::tell_end(std::size_t index, int status) {
  // The rank's last output is read before its end is reported.
  if (room_.out) read(index, Stream::out);
  if (room_.err) read(index, Stream::err);
  const int rank = part_.first_rank + static_cast<int>(index);
  const std::string who = fmt::format("rank {} (pid {})", rank, ranks_[index].pid);
  if (WIFSIGNALED(status)) {
    const int signal = WTERMSIG(status);
    endings_.push_back(
        {rank, 0, signal, fmt::format("{} was killed by signal {} ({})", who, signal, ::strsignal(signal))});
  } else if (status != 0) {
    const int code = WEXITSTATUS(status);
    endings_.push_back({rank, code, 0, fmt::format("{} exited with code {}", who, code)});
  }
}

void LocalRanks::reap() {
  int status = 0;
  for (pid_t pid = ::waitpid(-1, &status, WNOHANG); pid > 0; pid = ::waitpid(-1, &status, WNOHANG)) {
    for (std::size_t i = 0; i < ranks_.size(); ++i) {
      if (!ranks_[i].running || ranks_[i].pid != pid) continue;
      ranks_[i].running = false;
      tell_end(i, status);
    }
  }
}

std::vector<pid_t> LocalRanks::left_behind() const {
  std::vector<pid_t> left = job_processes(mark_, ::getpid());
  std::erase(left, keeper_.pid());
  return left;
}

bool LocalRanks::finish(bool kill, Room room) {
  reap();
  const std::vector<pid_t> left = left_behind();
  if (!left.empty()) {
    if (!leftovers_told_ || kill) {
      for (const pid_t pid : left) ::kill(pid, kill ? SIGKILL : SIGTERM);
      for (const pid_t pid : left) ::kill(pid, SIGCONT);
    }
    leftovers_told_ = true;
    return false;
  }
  // All known writers have ended, so the streams have ended, unless a process that was not found holds them
  // open.
  bool open = false;
  for (std::size_t i = 0; i < ranks_.size(); ++i) {
    while (room.out && read(i, Stream::out)) {
    }
    while (room.err && read(i, Stream::err)) {
    }
    open = open || ranks_[i].out.valid() || ranks_[i].err.valid();
  }
  return !open;
}

std::string LocalRanks::leftovers() const {
  const std::vector<pid_t> left = left_behind();
  if (left.empty()) return {};
  return fmt::format("{} process(es) of the job do not end, among them {}", left.size(), left[0]);
}

}  // namespace kolo::cli
