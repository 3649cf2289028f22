#include "launch/job_processes.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string_view>
#include <thread>

namespace kolo::cli {
namespace {

std::string read_file(const std::string& path) {
  std::string content;
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  std::array<char, 8192> block;
  ssize_t got = 0;
  while (fd.valid() && (got = ::read(fd.get(), block.data(), block.size())) > 0) {
    content.append(block.data(), static_cast<std::size_t>(got));
  }
  return content;
}

bool carries(const std::string& folder, const std::string& mark) {
  const std::string environment = read_file(folder + "/environ");
  for (auto at = environment.find(mark); at != std::string::npos; at = environment.find(mark, at + 1)) {
    const bool begins = at == 0 || environment[at - 1] == '\0';
    const bool ends = at + mark.size() == environment.size() || environment[at + mark.size()] == '\0';
    if (begins && ends) return true;
  }
  return false;
}

/// A zombie process (ended, not yet waited for) does not count.
bool living_child(const std::string& folder, pid_t parent) {
  const std::string stat = read_file(folder + "/stat");  // pid (name) state ppid ...
  const auto name_end = stat.rfind(')');
  if (name_end == std::string::npos || name_end + 4 > stat.size()) return false;
  const char state = stat[name_end + 2];
  return state != 'Z' && state != 'X' && std::atoi(stat.c_str() + name_end + 4) == parent;
}

constexpr const char* kKeeper = "kolo-keeper";

bool is_keeper(pid_t pid) {
  return read_file("/proc/" + std::to_string(pid) + "/comm") == std::string(kKeeper) + "\n";
}

/// Kills the job's processes after the launcher is gone, until none is left that could start more.
void kill_all(const std::string& mark) {
  int quiet = 0;
  for (int round = 0; quiet < 3 && round < 2000; ++round) {
    std::vector<pid_t> left = job_processes(mark, 0);
    // The keeper of a nested launcher is spared: it kills its own job's processes and then ends.
    std::erase_if(left, is_keeper);
    for (const pid_t pid : left) ::kill(pid, SIGKILL);
    quiet = left.empty() ? quiet + 1 : 0;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

[[noreturn]] void keep(int line, const std::string& mark) {
  sigset_t all;
  sigfillset(&all);
  ::sigprocmask(SIG_SETMASK, &all, nullptr);
  ::setsid();
  ::prctl(PR_SET_NAME, kKeeper);
  // The keeper closes the launcher's descriptors, because a reader of the launcher's output waits for its
  // end.
  if (line != 0) ::dup2(line, 0);
  ::close_range(1, ~0u, 0);
  char farewell = 0;
  ssize_t got;
  while ((got = ::read(0, &farewell, 1)) < 0 && errno == EINTR) {
  }
  if (got != 1) kill_all(mark);
  ::_exit(0);
}

}  // namespace

std::vector<pid_t> job_processes(const std::string& mark, pid_t parent) {
  std::vector<pid_t> found;
  const std::unique_ptr<DIR, int (*)(DIR*)> proc(::opendir("/proc"), ::closedir);
  if (!proc) return found;
  while (const dirent* entry = ::readdir(proc.get())) {
    const pid_t pid = std::atoi(entry->d_name);
    if (pid <= 0 || pid == ::getpid()) continue;
    const std::string folder = std::string("/proc/") + entry->d_name;
    if (carries(folder, mark) || (parent != 0 && living_child(folder, parent))) found.push_back(pid);
  }
  return found;
}

Result<Keeper> Keeper::start(const std::string& mark) {
  std::array<int, 2> ends;
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return Status::from_errno("pipe", errno);
  UniqueFd reader(ends[0]);
  Keeper keeper;
  keeper.line_ = UniqueFd(ends[1]);
  keeper.pid_ = ::fork();
  if (keeper.pid_ < 0) return Status::from_errno("fork", errno);
  if (keeper.pid_ == 0) keep(reader.get(), mark);
  return keeper;
}

Keeper::~Keeper() {
  if (!line_.valid()) return;
  const char farewell = 'F';
  while (::write(line_.get(), &farewell, 1) < 0 && errno == EINTR) {
  }
  line_.reset();
  ::waitpid(pid_, nullptr, 0);
}

}  // namespace kolo::cli
