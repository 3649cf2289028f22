// The running ranks of a job, on this host or others: the interface for the launcher.
#pragma once

#include <poll.h>

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace kolo::cli {

enum class Stream { out, err };

inline constexpr int kCannotStart = 127;  ///< the exit code that shells use

/// How a rank failed, or why it could not be started.
struct Ending {
  int rank = 0;
  int exit_code = 0;
  int signal = 0;    ///< signal that ended it; 0: it exited
  std::string what;  ///< for messages: "rank 3 (pid 71) exited with code 9"
};

/// Takes a rank's output; no bytes: the stream has ended.
using OutputTaker = std::function<void(int rank, Stream stream, std::string_view bytes)>;

/// The output streams that can take more bytes (backpressure).
struct Room {
  bool out = true;
  bool err = true;
  bool operator==(const Room&) const = default;
};

/// Some ranks of a job. Used by one thread, around one poll(2): watch(), poll, hear(), take_endings().
class Ranks {
 public:
  virtual ~Ranks() = default;

  /// Failures are reported by take_endings().
  virtual void start() = 0;
  /// Number of ranks that have not ended, including those not yet started.
  virtual int running() const = 0;
  /// Sends a signal to the ranks; with `groups` to their whole process groups.
  virtual void signal(int signal, bool groups) = 0;
  /// Appends the descriptors to poll; a rank's output only if `room` has space for it.
  virtual void watch(std::vector<pollfd>& entries, Room room) = 0;
  /// Handles the events of the descriptors that watch() appended.
  virtual void hear(std::span<const pollfd> entries) = 0;
  /// Call it when children may have ended (SIGCHLD).
  virtual void reap() = 0;
  /// Failures since the last call, in the order in which they were noticed.
  virtual std::vector<Ending> take_endings() = 0;
  /// After the last rank has ended: ends the processes that ranks left behind (`kill`: at once) and takes the
  /// last output as far as `room` allows. True when nothing is left.
  virtual bool finish(bool kill, Room room) = 0;
  /// Describes the processes that are still alive; empty if there are none.
  virtual std::string leftovers() const = 0;
  /// hear() must be called at least this often; -1: only after events.
  virtual int tick_ms() const { return -1; }
};

}  // namespace kolo::cli
