// The running ranks of a job, wherever they are: what the launcher needs of them.
#pragma once

#include <poll.h>

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace kolo::cli {

enum class Stream { out, err };

inline constexpr int kCannotStart = 127;  ///< an exit code, as shells use it

/// How a rank ended that did not succeed, or why it could not be started.
struct Ending {
  int rank = 0;
  int exit_code = 0;
  int signal = 0;    ///< that ended it; 0: it exited
  std::string what;  ///< for people: "rank 3 (pid 71) exited with code 9"
};

/// Takes what a rank has printed; no bytes: the stream has ended.
using OutputTaker = std::function<void(int rank, Stream stream, std::string_view bytes)>;

/// Where there is room for more output.
struct Room {
  bool out = true;
  bool err = true;
  bool operator==(const Room&) const = default;
};

/// Some ranks of a job. Used by one thread, around one poll(2): watch(), poll, hear(), take_endings().
class Ranks {
 public:
  virtual ~Ranks() = default;

  /// Failures are told by take_endings().
  virtual void start() = 0;
  /// Those that have been started, or are about to be, and have not ended.
  virtual int running() const = 0;
  /// To the ranks, or with `groups` also to what they have started in their process groups.
  virtual void signal(int signal, bool groups) = 0;
  /// Appends what is to be polled, output only where there is room for it.
  virtual void watch(std::vector<pollfd>& entries, Room room) = 0;
  /// Takes back what watch() appended.
  virtual void hear(std::span<const pollfd> entries) = 0;
  /// Children may have ended (SIGCHLD).
  virtual void reap() = 0;
  /// Failures since the last call, in the order in which they were noticed.
  virtual std::vector<Ending> take_endings() = 0;
  /// After the last rank has ended: ends what they have left behind (`kill`: at once) and takes the last
  /// output, where there is room for it. True when nothing is left.
  virtual bool finish(bool kill, Room room) = 0;
  /// For a last message: who is still there.
  virtual std::string leftovers() const = 0;
  /// hear() wants to be called at least this often; -1: only when there is something.
  virtual int tick_ms() const { return -1; }
};

}  // namespace kolo::cli
