#include "launch/agent.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <memory>
#include <optional>
#include <vector>

#include "base/deadline.hpp"
#include "launch/frames.hpp"
#include "launch/local_ranks.hpp"
#include "launch/part.hpp"
#include "launch/reserved_port.hpp"
#include "launch/signals.hpp"

namespace kolo::cli {
namespace {

constexpr auto kSilence = std::chrono::seconds(30);
/// Time between SIGTERM and SIGKILL if the launcher is gone.
constexpr auto kGrace = std::chrono::seconds(5);
/// Longest wait for processes that SIGKILL does not end. The launcher waits a little longer, for the report.
constexpr auto kLastWait = std::chrono::seconds(8);

class Agent {
 public:
  int run();

 private:
  void round();
  void listen();
  void obey(const Frame& frame);
  void begin(const Frame& frame);
  void report();
  /// The launcher is gone: stops the ranks.
  void abandon();
  bool finished();
  Room room() const;

  Signals signals_;
  ReservedPort port_{false};
  FrameReader heard_;
  FrameWriter tell_;
  std::unique_ptr<LocalRanks> ranks_;
  bool abandoned_ = false;
  bool paused_ = false;  ///< the launcher is stopped (Ctrl-Z), so its silence is expected
  bool done_ = false;
  Room room_;                   ///< room for output at the launcher
  std::optional<bool> finish_;  ///< set when the remaining processes must end; true: kill at once
  Deadline silence_ = Deadline::after(kSilence);
  std::optional<Deadline> kill_at_;
  std::optional<Deadline> give_up_;  ///< when to stop waiting for processes that do not end
  int told_running_ = -1;
};

int Agent::run() {
  tell_.text(kAgentHello);
  tell_.frame(FrameKind::port, static_cast<std::uint32_t>(port_.port()));
  while (!finished()) round();
  return 0;
}

bool Agent::finished() {
  if (!ranks_) return abandoned_;
  if (!done_) {
    // The deadline restarts while the reader of the output is slow: a slow reader is not a process that does
    // not end.
    if (give_up_ && room() != Room{}) give_up_ = Deadline::after(kLastWait);
    if (give_up_ && give_up_->passed()) {
      if (const std::string left = ranks_->leftovers(); !left.empty()) tell_.frame(FrameKind::left, 0, left);
    } else if (ranks_->running() > 0 || !finish_ || !ranks_->finish(*finish_, room())) {
      return false;
    }
    tell_.frame(FrameKind::done);
    done_ = true;
  }
  return abandoned_ || !tell_.pending();
}

void Agent::round() {
  std::vector<pollfd> entries = {{signals_.fd(), POLLIN, 0},
                                 {abandoned_ ? -1 : STDIN_FILENO, POLLIN, 0},
                                 {tell_.pending() && !abandoned_ ? STDOUT_FILENO : -1, POLLOUT, 0}};
  const std::size_t own = entries.size();
  if (ranks_) ranks_->watch(entries, room());
  // There is no SIGCHLD for processes that are not children of this one.
  ::poll(entries.data(), entries.size(), finish_ ? 20 : 500);
  if (ranks_) ranks_->hear(std::span(entries).subspan(own));
  for (int signal = signals_.next(); signal != 0; signal = signals_.next()) {
    if (signal == SIGCHLD && ranks_) ranks_->reap();
    if (signal == SIGTERM || signal == SIGINT || signal == SIGHUP) abandon();
  }
  if (entries[1].revents != 0) listen();
  if (!paused_ && silence_.passed()) abandon();
  if (kill_at_ && kill_at_->passed()) {
    ranks_->signal(SIGKILL, true);
    finish_ = true;
    kill_at_.reset();
  }
  report();
  if (!abandoned_ && !tell_.drain(STDOUT_FILENO)) abandon();
}

Room Agent::room() const {
  // After the launcher is gone, the ranks' output is dropped, so that ranks do not block on a full queue.
  if (abandoned_) return {};
  return {room_.out && !tell_.full(), room_.err && !tell_.full()};
}

void Agent::listen() {
  silence_ = Deadline::after(kSilence);
  std::string bytes;
  const bool open = read_some(STDIN_FILENO, bytes);
  heard_.feed(bytes);
  for (;;) {
    const Result<std::optional<Frame>> frame = heard_.next();
    if (!frame.ok()) return abandon();
    if (!frame.value()) break;
    obey(*frame.value());
  }
  if (!open) abandon();
}

void Agent::obey(const Frame& frame) {
  paused_ = false;
  const int number = static_cast<int>(frame.number);
  switch (frame.kind) {
    case FrameKind::job:
      return ranks_ ? abandon() : begin(frame);
    case FrameKind::signal:
    case FrameKind::group:
      paused_ = number == SIGSTOP;
      if (ranks_) ranks_->signal(number, frame.kind == FrameKind::group);
      return;
    case FrameKind::room:
      room_ = {(number & 1) != 0, (number & 2) != 0};
      return;
    case FrameKind::finish:
      finish_ = number != 0;
      if (*finish_ && !give_up_) give_up_ = Deadline::after(kLastWait);
      return;
    default:
      return;
  }
}

void Agent::begin(const Frame& frame) {
  auto job = decode_part(frame.text);
  if (!job) return abandon();
  const int rank = job->part.first_rank;
  const int ranks = job->part.ranks;
  ranks_ = std::make_unique<LocalRanks>(std::move(job->part), signals_.before(),
                                        [this](int from, Stream stream, std::string_view bytes) {
                                          if (abandoned_) return;
                                          tell_.frame(stream == Stream::out ? FrameKind::out : FrameKind::err,
                                                      static_cast<std::uint32_t>(from), bytes);
                                        });
  if (::chdir(job->directory.c_str()) != 0) {
    const Ending ending{rank, kCannotStart, 0,
                        fmt::format("cannot start {} rank{} in {}: {}", ranks, ranks == 1 ? "" : "s",
                                    job->directory, Status::from_errno("chdir", errno).message())};
    tell_.frame(FrameKind::failed, static_cast<std::uint32_t>(rank), encode_ending(ending));
    return;
  }
  ranks_->start();
}

void Agent::report() {
  if (!ranks_) return;
  for (const Ending& ending : ranks_->take_endings()) {
    tell_.frame(FrameKind::failed, static_cast<std::uint32_t>(ending.rank), encode_ending(ending));
  }
  if (ranks_->running() == told_running_) return;
  told_running_ = ranks_->running();
  tell_.frame(FrameKind::running, static_cast<std::uint32_t>(told_running_));
}

void Agent::abandon() {
  if (abandoned_) return;
  abandoned_ = true;
  finish_ = finish_.value_or(false);
  if (!ranks_) return;
  kill_at_ = Deadline::after(kGrace);
  give_up_ = Deadline::after(kGrace + kLastWait);
  ranks_->signal(SIGTERM, true);
  ranks_->signal(SIGCONT, true);  // a stopped process handles no signal
}

}  // namespace

int run_agent() {
  return Agent().run();
}

}  // namespace kolo::cli
