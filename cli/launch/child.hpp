// The children of a launcher: a rank each, or an ssh each with the ranks of a host at its other end.
#pragma once

#include <poll.h>
#include <signal.h>
#include <sys/types.h>

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.hpp"
#include "base/unique_fd.hpp"
#include "launch/output.hpp"
#include "launch/terminals.hpp"

namespace kolo::cli {

inline constexpr int kCannotStart = 127;  ///< the exit code that shells use

/// How a rank ended, or why it could not be started.
struct RankExit {
  int rank = 0;
  int exit_code = 0;
  int signal = 0;      ///< signal that ended it; 0: it exited
  std::string what;    ///< for messages: "rank 3 (pid 71) exited with code 9"
  int lost_ranks = 0;  ///< a host was lost, with so many ranks, from `rank` on

  bool failed() const { return exit_code != 0 || signal != 0; }
};

/// The texts as exec takes them; the last pointer is null. Valid as long as the texts.
std::vector<char*> pointers(const std::vector<std::string>& texts);

/// The path of program `name`: `name` itself if it contains a slash, else the first executable in PATH.
Result<std::string> find_program(const std::string& name);

/// Used by one thread, around one poll(2): watch(), poll, handle_events(); end() after waitpid(2).
class Child {
 public:
  /// Output goes to `console`, ends of ranks to `exits`; both outlive the child.
  Child(int first_rank, int ranks, Console& console, std::vector<RankExit>& exits)
      : console_(console), exits_(exits), first_rank_(first_rank), ranks_(ranks), running_(ranks) {}
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  virtual ~Child() = default;

  /// Starts `command` (looked up in PATH) in a process group of its own, with `signals` blocked; it is killed
  /// when the calling thread ends. Without `has_input` its standard input is empty. Its output goes to pipes,
  /// or to pseudo-terminals as `terminals` says, if the system has some left. Failures are added to the
  /// exits.
  void start(const std::vector<std::string>& command, const std::vector<std::string>& environment,
             const sigset_t& signals, bool has_input, const Terminals& terminals = {});
  pid_t pid() const { return pid_; }  ///< -1: it is not running
  int ranks() const { return ranks_; }
  /// Number of its ranks that have not ended.
  int running() const { return running_; }
  /// It has ended, and all of its output was read.
  bool is_over() const { return pid_ < 0 && !out_.valid() && !err_.valid(); }
  /// Sends a signal to its ranks; with `groups` to their whole process groups.
  virtual void signal(int signal, bool groups) = 0;
  /// The terminals that the user watches have another size.
  virtual void resize(const Terminals& terminals) = 0;

  static constexpr std::size_t kEntries = 3;
  void watch(std::vector<pollfd>& entries) const;
  void handle_events(std::span<const pollfd> entries);
  /// Call it when it has ended.
  void end(int wait_status);
  /// Reads what is there, as far as the console takes it; true if the streams have ended.
  bool finish();

 protected:
  /// The streams that are read now.
  virtual OutputReady ready() const { return console_.ready(); }
  /// Output; no bytes: the stream has ended.
  virtual void take(Stream stream, std::string_view bytes) = 0;
  virtual void on_end(pid_t pid, int wait_status) = 0;
  bool read(Stream stream);
  Status spawn(const std::vector<std::string>& command, const std::vector<std::string>& environment,
               const sigset_t& signals, bool has_input, const Terminals& terminals);

  Console& console_;
  std::vector<RankExit>& exits_;
  const int first_rank_;
  const int ranks_;
  int running_;
  pid_t pid_ = -1;
  UniqueFd in_;         ///< write end of its standard input, if it has one
  UniqueFd out_, err_;  ///< read ends of pipes, or of pseudo-terminals, non-blocking
  ByteQueue input_;
};

class RankChild final : public Child {
 public:
  /// `word`: for a rank, in messages.
  RankChild(int rank, const char* word, Console& console, std::vector<RankExit>& exits)
      : Child(rank, 1, console, exits), word_(word) {}
  void signal(int signal, bool groups) override;
  void resize(const Terminals& terminals) override;

 private:
  void take(Stream stream, std::string_view bytes) override { console_.take(first_rank_, stream, bytes); }
  void on_end(pid_t pid, int wait_status) override;

  const char* const word_;
};

}  // namespace kolo::cli
