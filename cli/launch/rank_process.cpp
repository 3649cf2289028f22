#include "launch/rank_process.hpp"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <array>
#include <cerrno>
#include <cstdlib>
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
  if (errno == EMFILE) return Status(Code::system, "more: too many open files; raise ulimit -n");
  return Status::from_errno(what, errno);
}

Result<Pipe> make_pipe() {
  std::array<int, 2> ends;
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return no_descriptor("pipe");
  return Pipe{UniqueFd(ends[0]), UniqueFd(ends[1])};
}

std::vector<char*> pointers(const std::vector<std::string>& texts) {
  std::vector<char*> list;
  for (const std::string& text : texts) list.push_back(const_cast<char*>(text.c_str()));
  list.push_back(nullptr);
  return list;
}

/// Runs between fork and exec in a program with threads, so it makes system calls only. Never returns.
[[noreturn]] void become(const Program& program, char* const* arguments, char* const* environment,
                         pid_t launcher, int in, int out, int err, int failure) {
  ::setpgid(0, 0);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != launcher) ::_exit(127);  // the launcher died before PR_SET_PDEATHSIG was set
  ::signal(SIGCHLD, SIG_DFL);
  ::signal(SIGPIPE, SIG_DFL);
  ::sigprocmask(SIG_SETMASK, &program.signals, nullptr);
  int error = 0;
  if (::dup2(in, 0) < 0 || ::dup2(out, 1) < 0 || ::dup2(err, 2) < 0) {
    error = errno;
  } else {
    ::execve(program.path.c_str(), arguments, environment);
    error = errno;
  }
  [[maybe_unused]] const ssize_t told = ::write(failure, &error, sizeof(error));
  ::_exit(127);
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
  Status here = executable("./" + name);
  return Status(Code::system,
                name + ": not found in PATH" + (here.ok() ? "; did you mean ./" + name + "?" : ""));
}

Result<RankProcess> start_rank(const Program& program, const std::vector<std::string>& environment) {
  Result<Pipe> out = make_pipe();
  Result<Pipe> err = make_pipe();
  Result<Pipe> failure = make_pipe();  // closed by exec; carries the error if exec fails
  for (const Status& status : {out.status(), err.status(), failure.status()}) {
    if (!status.ok()) return status;
  }
  Pipe in;
  if (program.input) {
    Result<Pipe> made = make_pipe();
    if (!made.ok()) return made.status();
    in = std::move(*made);
  } else {
    in.read = UniqueFd(::open("/dev/null", O_RDONLY | O_CLOEXEC));
    if (!in.read.valid()) return no_descriptor("/dev/null");
  }

  const std::vector<char*> arguments = pointers(program.arguments);
  const std::vector<char*> variables = pointers(environment);
  const pid_t launcher = ::getpid();
  RankProcess rank;
  rank.pid = ::fork();
  if (rank.pid < 0) return Status::from_errno("fork", errno);
  if (rank.pid == 0) {
    become(program, arguments.data(), variables.data(), launcher, in.read.get(), out->write.get(),
           err->write.get(), failure->write.get());
  }
  ::setpgid(rank.pid, rank.pid);  // set in parent and child, so it holds whichever runs first

  failure->write.reset();
  int error = 0;
  ssize_t got;
  while ((got = ::read(failure->read.get(), &error, sizeof(error))) < 0 && errno == EINTR) {
  }
  if (got == sizeof(error)) {
    ::waitpid(rank.pid, nullptr, 0);
    if (error == ENOENT) return Status(Code::system, program.path + ": " + missing_interpreter(program.path));
    const bool script = error == ENOEXEC;
    return Status::from_errno(program.path, error)
        .prefixed(script ? "no program, or its #! line is missing" : "exec");
  }
  rank.in = std::move(in.write);
  rank.out = std::move(out->read);
  rank.err = std::move(err->read);
  ::fcntl(rank.out.get(), F_SETFL, O_NONBLOCK);
  ::fcntl(rank.err.get(), F_SETFL, O_NONBLOCK);
  return rank;
}

}  // namespace kolo::cli
