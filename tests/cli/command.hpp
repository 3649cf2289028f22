// A program that a test runs: its output, its exit status, and its process.
#pragma once

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <map>
#include <string>
#include <vector>

namespace kolo::test {

/// Starts at construction; collects standard output and error separately. A program without output for 100
/// seconds counts as hanging. The limit is long because kolo tune measures for long before it prints, and
/// longer on a busy machine.
class Command {
 public:
  explicit Command(std::vector<std::string> arguments,
                   const std::map<std::string, std::string>& variables = {}, bool join_streams = false) {
    std::array<std::array<int, 2>, 2> pipes;
    for (auto& ends : pipes) {
      if (::pipe2(ends.data(), O_CLOEXEC) != 0) std::abort();
    }
    pid_ = ::fork();
    if (pid_ == 0) {
      ::alarm(0);
      // A test in the background of a script ignores SIGINT; the tested program must not.
      for (const int signal : {SIGINT, SIGQUIT, SIGTERM, SIGHUP}) ::signal(signal, SIG_DFL);
      for (const auto& [name, value] : variables) ::setenv(name.c_str(), value.c_str(), 1);
      ::dup2(pipes[0][1], 1);
      ::dup2(join_streams ? pipes[0][1] : pipes[1][1], 2);
      std::vector<char*> list;
      for (std::string& argument : arguments) list.push_back(argument.data());
      list.push_back(nullptr);
      ::execvp(list[0], list.data());
      ::_exit(126);
    }
    for (std::size_t i = 0; i < 2; ++i) {
      ::close(pipes[i][1]);
      fds_[i] = pipes[i][0];
    }
  }
  Command(const Command&) = delete;
  Command& operator=(const Command&) = delete;
  ~Command() {
    if (!ended_) {
      ::kill(pid_, SIGKILL);
      ::waitpid(pid_, nullptr, 0);
    }
    for (const int fd : fds_) {
      if (fd >= 0) ::close(fd);
    }
  }

  pid_t pid() const { return pid_; }
  /// The descriptor from which its standard output is read.
  int out_fd() const { return fds_[0]; }
  const std::string& out() const { return texts_[0]; }
  const std::string& err() const { return texts_[1]; }

  /// Reads until standard output holds `text` `times` times; false if it ends before.
  bool until(const std::string& text, int times) {
    while (count(out(), text) < times) {
      if (!read_some()) return false;
    }
    return true;
  }

  /// Reads to the end and waits; the exit code, or 1000 + the signal.
  int finish() {
    while (read_some()) {
    }
    int status = 0;
    ::waitpid(pid_, &status, 0);
    ended_ = true;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
  }

  /// Closes the read ends of its output, as `head` does after some lines.
  void hang_up() {
    for (int& fd : fds_) {
      ::close(fd);
      fd = -1;
    }
  }

  static int count(const std::string& in, const std::string& what) {
    int found = 0;
    for (auto at = in.find(what); at != std::string::npos; at = in.find(what, at + what.size())) ++found;
    return found;
  }

 private:
  bool read_some() {
    std::array<pollfd, 2> entries = {{{fds_[0], POLLIN, 0}, {fds_[1], POLLIN, 0}}};
    if (fds_[0] < 0 && fds_[1] < 0) return false;
    const int ready = ::poll(entries.data(), 2, 100'000);
    if (ready <= 0) return ready < 0 && errno == EINTR;
    std::array<char, 1 << 16> block;
    for (std::size_t i = 0; i < 2; ++i) {
      if (fds_[i] < 0 || entries[i].revents == 0) continue;
      const ssize_t got = ::read(fds_[i], block.data(), block.size());
      if (got > 0) {
        texts_[i].append(block.data(), static_cast<std::size_t>(got));
      } else {
        ::close(fds_[i]);
        fds_[i] = -1;
      }
    }
    return true;
  }

  pid_t pid_ = -1;
  bool ended_ = false;
  std::array<int, 2> fds_ = {-1, -1};
  std::array<std::string, 2> texts_;
};

}  // namespace kolo::test
