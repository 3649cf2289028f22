// The ranks of a job on other hosts: one ssh a host, with an agent of kolo at its other end.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/deadline.hpp"
#include "base/unique_fd.hpp"
#include "launch/frames.hpp"
#include "launch/hosts.hpp"
#include "launch/ranks.hpp"

namespace kolo::cli {

struct RemotePart {
  std::vector<HostSlots> hosts;
  std::string ssh;   ///< command and options, separated by spaces
  std::string kolo;  ///< this tool on the hosts
  std::string directory;
  std::vector<std::string> command;
  std::vector<std::pair<std::string, std::string>> environment;  ///< on top of each host's own
};

/// No rank starts before all hosts have answered. Secrets go through ssh's standard input.
class RemoteRanks final : public Ranks {
 public:
  /// `say` takes the lines that ssh and the hosts' shells print: the host, and a line. Throws InvalidArgument
  /// for an empty `ssh`.
  RemoteRanks(RemotePart part, const sigset_t& signals, OutputTaker take,
              std::function<void(const std::string& who, std::string_view line)> say);

  void start() override;
  int running() const override;
  void signal(int signal, bool groups) override;
  void watch(std::vector<pollfd>& entries, Room room) override;
  void hear(std::span<const pollfd> entries) override;
  void reap() override;
  std::vector<Ending> take_endings() override { return std::exchange(endings_, {}); }
  bool finish(bool kill, Room room) override;
  std::string leftovers() const override;
  int tick_ms() const override { return 500; }

 private:
  struct Host {
    HostSlots where;
    int first_rank = 0;
    int running = 0;
    pid_t ssh = -1;  ///< -1: it has ended
    UniqueFd in, out, err;
    FrameReader said;
    FrameWriter tell;
    std::string murmur;  ///< unfinished last line of standard error
    bool hello = false;
    bool done = false;       ///< the agent has reported that no process is left
    bool dismissed = false;  ///< it was stopped before it had a job
    int told_finish = -1;    ///< number of the last FrameKind::finish
    Room told_room;
  };

  /// False if there is nothing to read now.
  bool listen(Host& host);
  void take_frame(Host& host, const Frame& frame);
  void send_jobs();
  void forward_murmur(Host& host, bool all);
  void lose(Host& host, const std::string& why);

  const RemotePart part_;
  const sigset_t signals_;
  const OutputTaker take_;
  const std::function<void(const std::string&, std::string_view)> say_;
  std::vector<Host> hosts_;
  std::vector<Ending> endings_;
  int size_ = 0;
  std::uint32_t master_port_ = 0;
  bool jobs_sent_ = false;
  bool stopping_ = false;
  Clock::time_point pinged_ = Clock::now();
};

}  // namespace kolo::cli
