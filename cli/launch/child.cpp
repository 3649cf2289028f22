#include "launch/child.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>

namespace kolo::cli {
namespace {

struct Pipe {
  UniqueFd read;
  UniqueFd write;
};

/// The error for a missing `what`, from errno.
Status no_descriptor(const std::string& what) {
  if (errno == EMFILE) return Status(Code::system, "a process: too many open files (ulimit -n)");
  return Status::from_errno(what, errno);
}

Status open_pipe(Pipe& pipe) {
  std::array<int, 2> ends;
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return no_descriptor("pipe");
  pipe = {UniqueFd(ends[0]), UniqueFd(ends[1])};
  return {};
}

/// A pseudo-terminal if `terminal` is set and the system has one left, else a pipe.
Status open_output(Pipe& output, bool terminal, const Terminals& size) {
  auto made = terminal ? open_pseudo_terminal(size) : std::nullopt;
  if (!made) return open_pipe(output);
  output = {std::move(made->launcher_end), std::move(made->rank_end)};
  return {};
}

/// Why exec reports a file as missing that exists.
std::string missing_interpreter(const std::string& path) {
  std::ifstream file(path);
  std::string mark, name;
  if (std::getline(file, mark, '!') && mark == "#") file >> name;
  return name.empty() ? "its loader is not there" : "its interpreter " + name + " is not there";
}

Status executable(const std::string& path) {
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) return Status::from_errno(path, errno);
  if (!S_ISREG(info.st_mode)) return Status(Code::system, path + ": not a file");
  if (::access(path.c_str(), X_OK) != 0) return Status::from_errno(path, errno);
  return {};
}

}  // namespace

std::vector<char*> pointers(const std::vector<std::string>& texts) {
  std::vector<char*> list;
  for (const std::string& text : texts) list.push_back(const_cast<char*>(text.c_str()));
  list.push_back(nullptr);
  return list;
}

Result<std::string> find_program(const std::string& name) {
  if (name.find('/') != std::string::npos) {
    if (Status status = executable(name); !status.ok()) return status;
    return name;
  }
  const char* path = std::getenv("PATH");
  std::istringstream folders(path ? path : "/usr/local/bin:/usr/bin:/bin");
  for (std::string folder; std::getline(folders, folder, ':');) {
    const std::string candidate = (folder.empty() ? "." : folder) + "/" + name;
    if (!name.empty() && executable(candidate).ok()) return candidate;
  }
  return Status(Code::system, name + ": not found in PATH" +
                                  (executable("./" + name).ok() ? "; did you mean ./" + name + "?" : ""));
}

/// Returns once the program runs, or with the reason why it does not.
Status Child::spawn(const std::vector<std::string>& command, const std::vector<std::string>& environment,
                    const sigset_t& signals, bool has_input, const Terminals& terminals) {
  const Result<std::string> path = find_program(command.empty() ? "" : command[0]);
  if (!path.ok()) return path.status();
  Pipe in, out, err, failure;  // failure: closed by exec; carries the error if exec fails
  for (Pipe* pipe : {&in, &failure}) {
    if (Status status = open_pipe(*pipe); !status.ok()) return status;
  }
  if (Status status = open_output(out, terminals.out, terminals); !status.ok()) return status;
  if (Status status = open_output(err, terminals.err, terminals); !status.ok()) return status;
  if (!has_input) in.write.reset();

  const std::vector<char*> arguments = pointers(command);
  const std::vector<char*> variables = pointers(environment);
  const pid_t launcher = ::getpid();
  const pid_t pid = ::fork();
  if (pid < 0) return Status::from_errno("a process (ulimit -u, or pids.max of the control group)", errno);
  if (pid == 0) {  // system calls only, because the program has threads
    ::setpgid(0, 0);
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != launcher) ::_exit(127);  // the launcher died before PR_SET_PDEATHSIG was set
    ::signal(SIGCHLD, SIG_DFL);
    ::signal(SIGPIPE, SIG_DFL);
    ::sigprocmask(SIG_SETMASK, &signals, nullptr);
    if (::dup2(in.read.get(), 0) >= 0 && ::dup2(out.write.get(), 1) >= 0 && ::dup2(err.write.get(), 2) >= 0)
      ::execve(path.value().c_str(), arguments.data(), variables.data());
    const int error = errno;
    [[maybe_unused]] const ssize_t told = ::write(failure.write.get(), &error, sizeof(error));
    ::_exit(127);
  }
  ::setpgid(pid, pid);  // set in parent and child, so it holds whichever runs first

  failure.write.reset();
  int error = 0;
  ssize_t got;
  while ((got = ::read(failure.read.get(), &error, sizeof(error))) < 0 && errno == EINTR) {
  }
  if (got == sizeof(error)) {
    ::waitpid(pid, nullptr, 0);
    if (error == ENOENT) return Status(Code::system, path.value() + ": " + missing_interpreter(path.value()));
    return Status::from_errno(path.value(), error)
        .prefixed(error == ENOEXEC ? "no program, or its #! line is missing" : "exec");
  }
  for (const Pipe* pipe : {&out, &err}) ::fcntl(pipe->read.get(), F_SETFL, O_NONBLOCK);
  pid_ = pid;
  in_ = std::move(in.write);
  out_ = std::move(out.read);
  err_ = std::move(err.read);
  return {};
}

void Child::start(const std::vector<std::string>& command, const std::vector<std::string>& environment,
                  const sigset_t& signals, bool has_input, const Terminals& terminals) {
  const Status status = spawn(command, environment, signals, has_input, terminals);
  if (status.ok()) return;
  running_ = 0;
  exits_.push_back({first_rank_, kCannotStart, 0, "cannot start " + status.message()});
}

void Child::watch(std::vector<pollfd>& entries) const {
  // poll(2) ignores negative descriptors.
  entries.push_back({ready().out ? out_.get() : -1, POLLIN, 0});
  entries.push_back({ready().err ? err_.get() : -1, POLLIN, 0});
  entries.push_back({input_.pending() ? in_.get() : -1, POLLOUT, 0});
}

void Child::handle_events(std::span<const pollfd> entries) {
  if (entries[0].revents != 0) read(Stream::out);
  if (entries[1].revents != 0) read(Stream::err);
  // If its reader has closed, on_end() tells why.
  if (in_.valid() && input_.drain(in_.get()) != 0) in_.reset();
}

/// False if there is nothing to read now.
bool Child::read(Stream stream) {
  UniqueFd& fd = stream == Stream::out ? out_ : err_;
  if (!fd.valid()) return false;
  // Longer than what a pipe or a pseudo-terminal holds. The latter gives 4 KiB at a time.
  std::array<char, 1 << 17> block;
  std::size_t filled = 0;
  ssize_t got = 1;
  while (got > 0 && filled < block.size()) {
    got = ::read(fd.get(), block.data() + filled, block.size() - filled);
    if (got > 0) filled += static_cast<std::size_t>(got);
  }
  // EIO: all ranks' ends of a pseudo-terminal are closed.
  const bool has_ended = got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR);
  if (filled > 0) take(stream, {block.data(), filled});
  if (has_ended) {
    take(stream, {});
    fd.reset();
  }
  return filled > 0;
}

void Child::end(int wait_status) {
  const pid_t pid = std::exchange(pid_, -1);
  // The last output comes before the end. The streams need not end: a process that it started may hold them.
  if (ready().out) read(Stream::out);
  if (ready().err) read(Stream::err);
  on_end(pid, wait_status);
  running_ = 0;
}

bool Child::finish() {
  while (ready().out && read(Stream::out)) {
  }
  while (ready().err && read(Stream::err)) {
  }
  return !out_.valid() && !err_.valid();
}

void RankChild::signal(int signal, bool groups) {
  // Not after its end, because the system may have reused its process id.
  if (pid() > 0) ::kill(groups ? -pid() : pid(), signal);
}

void RankChild::resize(const Terminals& terminals) {
  for (const UniqueFd* fd : {&out_, &err_}) {
    if (fd->valid()) set_terminal_size(fd->get(), terminals);
  }
  // The kernel sends it to the processes of a controlling terminal only.
  signal(SIGWINCH, true);
}

void RankChild::on_end(pid_t pid, int wait_status) {
  RankExit exit{first_rank_, 0, 0, fmt::format("{} {} (pid {})", word_, first_rank_, pid)};
  if (WIFSIGNALED(wait_status)) {
    exit.signal = WTERMSIG(wait_status);
    exit.what += fmt::format(" was killed by signal {} ({})", exit.signal, ::strsignal(exit.signal));
    if (exit.signal == SIGABRT) exit.what += " after an error that it did not catch, or a failed assertion";
  } else {
    exit.exit_code = WEXITSTATUS(wait_status);
    exit.what += fmt::format(" exited with code {}", exit.exit_code);
  }
  exits_.push_back(std::move(exit));
}

}  // namespace kolo::cli
