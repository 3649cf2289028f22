#include "launch/job_processes.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <sstream>
#include <thread>

#include "base/status.hpp"
#include "net/random.hpp"

namespace kolo::cli {
namespace {

std::string read_file(const std::string& path) {
  std::ostringstream content;
  content << std::ifstream(path, std::ios::binary).rdbuf();
  return content.str();
}

/// A zombie process (ended, not yet waited for) does not count.
bool living_child(const std::string& folder, pid_t parent) {
  const std::string stat = read_file(folder + "/stat");  // pid (name) state ppid ...
  const auto name_end = stat.rfind(')');
  if (name_end == std::string::npos || name_end + 4 > stat.size()) return false;
  const char state = stat[name_end + 2];
  return state != 'Z' && state != 'X' && std::atoi(stat.c_str() + name_end + 4) == parent;
}

/// The processes of this host that have `mark` in their environment or `parent` (0: none) as their parent.
std::vector<pid_t> find_processes(const std::string& mark, pid_t parent) {
  std::vector<pid_t> found;
  const std::unique_ptr<DIR, int (*)(DIR*)> proc(::opendir("/proc"), ::closedir);
  if (!proc) return found;
  while (const dirent* entry = ::readdir(proc.get())) {
    const pid_t pid = std::atoi(entry->d_name);
    if (pid <= 0 || pid == ::getpid()) continue;
    const std::string folder = std::string("/proc/") + entry->d_name;
    const bool is_marked = read_file(folder + "/environ").find(mark) != std::string::npos;
    if (is_marked || (parent != 0 && living_child(folder, parent))) found.push_back(pid);
  }
  return found;
}

/// The living children of this process, by trying all process ids since `first`: for systems without /proc.
std::vector<pid_t> find_children(pid_t first) {
  constexpr pid_t kMostProcesses = 1 << 22;  // of Linux
  const pid_t last = ::fork();
  if (last == 0) ::_exit(0);
  if (last > 0) ::waitpid(last, nullptr, 0);
  std::vector<pid_t> found;
  for (pid_t pid = last < first ? 1 : first; pid <= (last < first ? kMostProcesses : last); ++pid) {
    siginfo_t info{};
    if (::waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid == 0)
      found.push_back(pid);
  }
  return found;
}

/// The watchdog: waits for the farewell of the launcher; without it, kills the job's processes until none is
/// left that could start more.
[[noreturn]] void watch(int line, const std::string& mark) {
  sigset_t all;
  sigfillset(&all);
  ::sigprocmask(SIG_SETMASK, &all, nullptr);
  ::setsid();  // a terminal's Ctrl-C does not reach it
  ::prctl(PR_SET_NAME, "kolo-watchdog");
  // Without the launcher's descriptors, because a reader of the launcher's output waits for its end.
  if (line != 0) ::dup2(line, 0);
  ::close_range(1, ~0u, 0);
  char farewell = 0;
  ssize_t got;
  while ((got = ::read(0, &farewell, 1)) < 0 && errno == EINTR) {
  }
  int quiet = got == 1 ? 3 : 0;
  for (int round = 0; quiet < 3 && round < 2000; ++round) {
    const std::vector<pid_t> left = find_processes(mark, 0);
    for (const pid_t pid : left) ::kill(pid, SIGKILL);
    quiet = left.empty() ? quiet + 1 : 0;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  ::_exit(0);
}

std::string with_outer_marks(const std::string& mark) {
  const char* outer = std::getenv("kolo_run");
  return outer ? outer + ("," + mark) : mark;
}

}  // namespace

JobProcesses::JobProcesses() : mark_(net::random_hex(32)), marks_(with_outer_marks(mark_)) {
  std::array<int, 2> ends;
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) Status::from_errno("pipe", errno).throw_if_error();
  const UniqueFd reader(ends[0]);
  line_ = UniqueFd(ends[1]);
  watchdog_ = ::fork();
  if (watchdog_ < 0) Status::from_errno("fork", errno).throw_if_error();
  if (watchdog_ == 0) watch(reader.get(), mark_);
  ::prctl(PR_GET_CHILD_SUBREAPER, &subreaper_before_);
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
}

JobProcesses::~JobProcesses() {
  ::prctl(PR_SET_CHILD_SUBREAPER, subreaper_before_);
  const char farewell = 'F';
  while (::write(line_.get(), &farewell, 1) < 0 && errno == EINTR) {
  }
  ::waitpid(watchdog_, nullptr, 0);
}

std::vector<pid_t> JobProcesses::living() const {
  const bool has_proc = ::access("/proc/self/stat", F_OK) == 0;
  std::vector<pid_t> found = has_proc ? find_processes(mark_, ::getpid()) : find_children(watchdog_);
  std::erase(found, watchdog_);
  return found;
}

}  // namespace kolo::cli
