#include "launch/remote_ranks.hpp"

#include <fmt/format.h>
#include <signal.h>
#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <sstream>

#include "launch/part.hpp"
#include "launch/rank_process.hpp"

namespace kolo::cli {
namespace {

/// The exit code of ssh for its own failures.
constexpr int kLost = 255;
constexpr auto kPing = std::chrono::seconds(1);

/// Quotes text for the remote shell.
std::string quoted(const std::string& word) {
  std::string text = "'";
  for (const char letter : word) text += letter == '\'' ? std::string("'\\''") : std::string(1, letter);
  return text + "'";
}

/// Quotes text, but leaves "~/" and "~me/" in front for the remote shell.
std::string quoted_path(const std::string& path) {
  const auto end = path.find('/');
  const bool plain = path.find_first_of("'\"\\$`;&|<>()*?[]{}!# \t\n") >= end;
  if (!path.starts_with('~') || end == std::string::npos || !plain) return quoted(path);
  return path.substr(0, end + 1) + quoted(path.substr(end + 1));
}

/// ssh uses the first value of an option, so the user's options come before these.
constexpr std::array kSshOptions = {"-T",
                                    "-o",
                                    "BatchMode=yes",
                                    "-o",
                                    "ConnectTimeout=10",
                                    "-o",
                                    "ServerAliveInterval=5",
                                    "-o",
                                    "ServerAliveCountMax=3"};

std::vector<std::string> ssh_command(const RemotePart& part, const HostSlots& host) {
  std::vector<std::string> command;
  std::istringstream words(part.ssh);
  for (std::string word; words >> word;) command.push_back(word);
  command.insert(command.end(), kSshOptions.begin(), kSshOptions.end());
  command.push_back(host.login);
  command.push_back("exec " + quoted_path(part.kolo) + " run --agent");
  return command;
}

bool stops(int signal) {
  return signal == SIGTERM || signal == SIGKILL || signal == SIGINT || signal == SIGHUP;
}

}  // namespace

RemoteRanks::RemoteRanks(RemotePart part, const sigset_t& signals, OutputTaker take,
                         std::function<void(const std::string&, std::string_view)> say)
    : part_(std::move(part)), signals_(signals), take_(std::move(take)), say_(std::move(say)) {
  for (const HostSlots& where : part_.hosts) {
    Host host;
    host.where = where;
    host.first_rank = size_;
    size_ += where.slots;
    hosts_.push_back(std::move(host));
  }
}

void RemoteRanks::start() {
  const std::vector<std::string> environment = own_environment();
  for (Host& host : hosts_) {
    Program program;
    program.arguments = ssh_command(part_, host.where);
    program.signals = signals_;
    program.input = true;
    Result<std::string> path = find_program(program.arguments[0]);
    if (path.ok()) program.path = path.value();
    Result<RankProcess> process = path.ok() ? start_rank(program, environment) : path.status();
    if (!process.ok()) {
      endings_.push_back({host.first_rank, kCannotStart, 0, "cannot start " + process.status().message()});
      return;
    }
    host.ssh = process->pid;
    host.running = host.where.slots;
    host.in = std::move(process->in);
    host.out = std::move(process->out);
    host.err = std::move(process->err);
  }
}

int RemoteRanks::running() const {
  int count = 0;
  for (const Host& host : hosts_) count += host.running;
  return count;
}

void RemoteRanks::signal(int signal, bool groups) {
  stopping_ = stopping_ || stops(signal);
  for (Host& host : hosts_) {
    if (host.ssh < 0 || host.done) continue;
    if (jobs_sent_) {
      host.tell.frame(groups ? FrameKind::group : FrameKind::signal, static_cast<std::uint32_t>(signal));
      host.tell.drain(host.in.get());
    } else if (stops(signal)) {
      host.dismissed = true;
      host.running = 0;
      ::kill(-host.ssh, signal == SIGKILL ? SIGKILL : SIGTERM);  // ssh may have child processes
    }
  }
}

void RemoteRanks::watch(std::vector<pollfd>& entries, Room room) {
  for (Host& host : hosts_) {
    // Hosts are always read. Otherwise the report of a failure would wait behind output for a reader that
    // pauses. The bytes in flight when there is no more room are bounded by an agent's queue and some pipes.
    if (jobs_sent_ && host.in.valid() && host.told_room != room) {
      host.told_room = room;
      host.tell.frame(FrameKind::room, (room.out ? 1 : 0) + (room.err ? 2 : 0));
    }
    entries.push_back({host.out.get(), POLLIN, 0});
    entries.push_back({host.err.get(), POLLIN, 0});
    entries.push_back({host.tell.pending() ? host.in.get() : -1, POLLOUT, 0});
  }
}

void RemoteRanks::hear(std::span<const pollfd> entries) {
  for (std::size_t i = 0; i < hosts_.size(); ++i) {
    Host& host = hosts_[i];
    if (entries[3 * i + 1].revents != 0) {
      if (!read_some(host.err.get(), host.murmur)) host.err.reset();
      forward_murmur(host, !host.err.valid());
    }
    if (entries[3 * i].revents != 0) listen(host);
  }
  const bool ping = Clock::now() - pinged_ > kPing;
  if (ping) pinged_ = Clock::now();
  for (Host& host : hosts_) {
    if (!host.in.valid()) continue;
    // The agent gets pings also before its job, because other hosts may be slow to answer.
    if (ping && host.hello && !host.tell.pending()) host.tell.frame(FrameKind::alive);
    if (!host.tell.drain(host.in.get())) host.in.reset();  // reap() reports the reason
  }
}

bool RemoteRanks::listen(Host& host) {
  std::string bytes;
  const bool open = read_some(host.out.get(), bytes);
  host.said.feed(bytes);
  if (!open) host.out.reset();
  if (!host.hello) {
    const Result<bool> hello = host.said.skip_to_hello();
    if (!hello.ok()) lose(host, hello.status().message());
    host.hello = hello.ok() && hello.value();
  }
  while (host.hello) {
    const Result<std::optional<Frame>> frame = host.said.next();
    if (!frame.ok()) lose(host, frame.status().message());
    if (!frame.ok() || !frame.value()) break;
    take_frame(host, *frame.value());
  }
  return !bytes.empty();
}

void RemoteRanks::take_frame(Host& host, const Frame& frame) {
  const int rank = static_cast<int>(frame.number);
  const bool ours = rank >= host.first_rank && rank < host.first_rank + host.where.slots;
  switch (frame.kind) {
    case FrameKind::port:
      if (host.first_rank == 0) master_port_ = frame.number;
      if (std::all_of(hosts_.begin(), hosts_.end(), [](const Host& h) { return h.hello; })) send_jobs();
      return;
    case FrameKind::out:
    case FrameKind::err:
      if (ours) take_(rank, frame.kind == FrameKind::out ? Stream::out : Stream::err, frame.text);
      return;
    case FrameKind::running:
      host.running = std::min(rank, host.where.slots);
      return;
    case FrameKind::failed:
      if (auto ending = decode_ending(frame.text); ending && ours) {
        ending->rank = rank;
        ending->what = host.where.name() + ": " + ending->what;
        endings_.push_back(std::move(*ending));
      }
      return;
    case FrameKind::left:
      return say_("kolo: ", host.where.name() + ": " + frame.text);
    case FrameKind::done:
      host.done = true;
      host.running = 0;
      host.in.reset();
      return;
    default:
      return;
  }
}

void RemoteRanks::send_jobs() {
  if (jobs_sent_ || stopping_) return;
  jobs_sent_ = true;
  for (Host& host : hosts_) {
    LocalPart part;
    part.first_rank = host.first_rank;
    part.ranks = host.where.slots;
    part.size = size_;
    part.command = part_.command;
    part.environment = part_.environment;
    part.environment.emplace_back("MASTER_PORT", std::to_string(master_port_));
    host.tell.frame(FrameKind::job, 0, encode_part(part_.directory, part));
  }
}

void RemoteRanks::forward_murmur(Host& host, bool all) {
  std::string& text = host.murmur;
  if (all && !text.empty() && !text.ends_with('\n')) text += '\n';
  for (auto end = text.find('\n'); end != std::string::npos; end = text.find('\n')) {
    std::string_view line(text.data(), end);
    if (line.ends_with('\r')) line.remove_suffix(1);  // ssh ends its lines with "\r\n"
    say_("[" + host.where.name() + "] ", line);
    text.erase(0, end + 1);
  }
}

/// Only the first failure of a host is reported, because later ones are its consequences.
void RemoteRanks::lose(Host& host, const std::string& why) {
  if (!host.done && !host.dismissed) {
    const std::string what = jobs_sent_ ? fmt::format("lost host {}: {}", host.where.name(), why)
                                        : fmt::format("cannot start on {}: {}", host.where.name(), why);
    endings_.push_back({host.first_rank, jobs_sent_ ? kLost : kCannotStart, 0, what});
  }
  host.dismissed = true;
  host.running = 0;
  host.in.reset();
  host.out.reset();
  if (host.ssh > 0) ::kill(-host.ssh, SIGTERM);
}

void RemoteRanks::reap() {
  int status = 0;
  for (pid_t pid = ::waitpid(-1, &status, WNOHANG); pid > 0; pid = ::waitpid(-1, &status, WNOHANG)) {
    for (Host& host : hosts_) {
      if (host.ssh != pid) continue;
      host.ssh = -1;
      // Reads the output that is there, not to the end of the streams: a child process of ssh may hold them
      // open.
      while (host.out.valid() && !host.done && listen(host)) {
      }
      if (host.err.valid()) read_some(host.err.get(), host.murmur);
      forward_murmur(host, true);
      host.err.reset();
      const std::string_view said = host.said.buffered();
      std::string how = WIFSIGNALED(status)
                            ? fmt::format("{} was killed by signal {}", part_.ssh, WTERMSIG(status))
                            : fmt::format("{} ended with code {}", part_.ssh, WEXITSTATUS(status));
      if (!host.hello && !said.empty()) how += fmt::format(" after \"{}\"", said.substr(0, 200));
      lose(host, how);
    }
  }
}

bool RemoteRanks::finish(bool kill, Room) {
  reap();
  bool left = false;
  for (Host& host : hosts_) {
    if (host.ssh < 0) continue;
    left = true;
    if (host.in.valid() && jobs_sent_ && host.told_finish != (kill ? 1 : 0)) {
      host.told_finish = kill ? 1 : 0;
      host.tell.frame(FrameKind::finish, kill ? 1 : 0);
    }
  }
  return !left;
}

std::string RemoteRanks::leftovers() const {
  std::string names;
  for (const Host& host : hosts_) {
    if (host.ssh >= 0) names += (names.empty() ? "" : ", ") + host.where.name();
  }
  return names.empty() ? "" : "no answer from " + names + "; what runs there ends when its agent misses us";
}

}  // namespace kolo::cli
