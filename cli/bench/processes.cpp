#include "bench/processes.hpp"

#include <fcntl.h>
#include <signal.h>
#include <sys/auxv.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <string_view>
#include <thread>

#include "launch/child.hpp"

namespace kolo::bench {
namespace {

// Variables of launchers: those of this job would be wrong for the child's job.
bool belongs_to_a_job(std::string_view variable) {
  static constexpr std::array<std::string_view, 15> kPrefixes = {
      "RANK=",         "WORLD_SIZE=",  "LOCAL_RANK=",  "LOCAL_WORLD_SIZE=",
      "GROUP_RANK=",   "MASTER_ADDR=", "MASTER_PORT=", "KOLO_",
      "OMPI_",         "PMIX_",        "PMI_",         "PRTE_",
      "MPI_LOCALRANK", "HYDI_",        "SLURM_"};
  return std::any_of(kPrefixes.begin(), kPrefixes.end(),
                     [&](auto prefix) { return variable.starts_with(prefix); });
}

void remove_ended(std::vector<pid_t>& processes) {
  std::erase_if(processes, [](pid_t pid) { return ::waitpid(pid, nullptr, WNOHANG) != 0; });
}

bool wait_for_all(std::vector<pid_t>& processes, std::chrono::milliseconds timeout) {
  const auto end = std::chrono::steady_clock::now() + timeout;
  while (true) {
    remove_ended(processes);
    if (processes.empty()) return true;
    if (std::chrono::steady_clock::now() >= end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
}

}  // namespace

pid_t start_process(const std::vector<std::string>& command, int output,
                    const std::vector<std::string>& variables) {
  std::vector<std::string> environment(variables);
  for (char** entry = environ; *entry != nullptr; ++entry) {
    if (!belongs_to_a_job(*entry)) environment.emplace_back(*entry);
  }
  // All allocations happen before the fork.
  const std::vector<char*> arguments = cli::pointers(command), settings = cli::pointers(environment);

  const pid_t parent = ::getpid();
  const pid_t child = ::fork();
  if (child != 0) return child;
  ::prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (::getppid() != parent) ::_exit(127);
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  const int nothing = ::open("/dev/null", O_RDONLY);
  ::dup2(nothing, STDIN_FILENO);
  ::dup2(output, STDOUT_FILENO);
  ::dup2(output, STDERR_FILENO);
  ::execvpe(arguments[0], arguments.data(), settings.data());
  ::_exit(127);
}

void end_processes(std::vector<pid_t>& processes, std::chrono::milliseconds grace) {
  if (wait_for_all(processes, grace)) return;
  for (const pid_t pid : processes) ::kill(pid, SIGTERM);
  if (wait_for_all(processes, std::chrono::seconds(3))) return;
  for (const pid_t pid : processes) ::kill(pid, SIGKILL);
  for (const pid_t pid : processes) ::waitpid(pid, nullptr, 0);
  processes.clear();
}

std::string program_path() {
  std::error_code hidden;
  const auto program = std::filesystem::read_symlink("/proc/self/exe", hidden);
  if (!hidden) return program.string();
  // Without /proc: as the caller of exec(2) spelled it.
  return std::filesystem::absolute(reinterpret_cast<const char*>(::getauxval(AT_EXECFN))).string();
}

}  // namespace kolo::bench
