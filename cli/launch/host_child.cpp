#include "launch/host_child.hpp"

#include <fmt/format.h>
#include <signal.h>
#include <sys/wait.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <sstream>

namespace kolo::cli {
namespace {

/// The exit code of ssh for its own failures.
constexpr int kLost = 255;

/// Quotes text for the remote shell.
std::string shell_quoted(const std::string& word) {
  std::string text = "'";
  for (const char letter : word) text += letter == '\'' ? std::string("'\\''") : std::string(1, letter);
  return text + "'";
}

/// Quotes text, but leaves "~/" and "~me/" in front for the remote shell.
std::string quoted_path(const std::string& path) {
  const auto end = path.find('/');
  const bool plain = path.find_first_of("'\"\\$`;&|<>()*?[]{}!# \t\n") >= end;
  if (!path.starts_with('~') || end == std::string::npos || !plain) return shell_quoted(path);
  return path.substr(0, end + 1) + shell_quoted(path.substr(end + 1));
}

}  // namespace

HostChild::HostChild(HostSlots where, int first_rank, Console& console, std::vector<RankExit>& exits)
    : Child(first_rank, where.slots, console, exits),
      where_(std::move(where)),
      errors_(console.err(), "[" + where_.name() + "] ") {}

void HostChild::start(const std::string& ssh, const std::string& kolo, const std::string& arguments,
                      const sigset_t& signals) {
  ssh_ = ssh;
  std::vector<std::string> command;
  std::istringstream words(ssh);
  for (std::string word; words >> word;) command.push_back(word);
  // ssh uses the first value of an option, so the user's options come before these.
  for (const char* word : {"-T", "-o", "BatchMode=yes", "-o", "ConnectTimeout=10", "-o",
                           "ServerAliveInterval=5", "-o", "ServerAliveCountMax=3"}) {
    command.emplace_back(word);
  }
  command.insert(command.end(), {where_.login, "exec " + quoted_path(kolo) + " " + arguments});
  std::vector<std::string> environment;
  for (char** at = environ; *at; ++at) environment.emplace_back(*at);
  Child::start(command, environment, signals, true);
}

void HostChild::tell(RecordKind kind, int number, std::string_view text) {
  if (!in_.valid()) return;
  input_.append(record(kind, number, text));
  input_.drain(in_.get());
}

void HostChild::send_job(const std::vector<std::string>& variables, const std::vector<std::string>& command,
                         const Terminals& terminals) {
  has_job_ = true;
  resize(terminals);
  for (const std::string& variable : variables) tell(RecordKind::variable, 0, variable);
  for (const std::string& argument : command) tell(RecordKind::argument, 0, argument);
  tell(RecordKind::start, 0, std::filesystem::current_path().string());
}

void HostChild::ping() {
  if (port_ != 0 && !input_.pending()) tell(RecordKind::alive);
}

void HostChild::start_again(int rank) {
  ++running_;
  tell(RecordKind::again, rank);
}

void HostChild::finish_part() {
  if (!std::exchange(is_finishing_, true)) tell(RecordKind::finish);
}

void HostChild::leave() {
  is_leaving_ = true;
  signal(SIGTERM, true);
  finish_part();
}

void HostChild::tell_ready() {
  const OutputReady ready = console_.ready();
  if (!has_job_ || ready == told_ready_) return;
  told_ready_ = ready;
  tell(RecordKind::ready, (ready.out ? 1 : 0) + (ready.err ? 2 : 0));
}

void HostChild::signal(int signal, bool) {
  if (pid() < 0) return;
  if (has_job_ && signal != SIGKILL) return tell(RecordKind::signal, signal);
  if (signal != SIGTERM && signal != SIGKILL && signal != SIGINT && signal != SIGHUP) return;
  is_lost_ = true;
  running_ = 0;
  ::kill(-pid(), signal == SIGKILL ? SIGKILL : SIGTERM);  // ssh may have child processes
}

void HostChild::resize(const Terminals& terminals) {
  if (has_job_) tell(RecordKind::terminals, 0, text_of(terminals));
}

void HostChild::take(Stream stream, std::string_view bytes) {
  if (stream == Stream::err) return bytes.empty() ? errors_.finish() : errors_.feed(bytes);
  said_.feed(bytes);
  const Status status = take_records();
  if (status.ok()) return;
  lose(status.message());
  out_.reset();
  if (pid() > 0) ::kill(-pid(), SIGTERM);
}

Status HostChild::take_records() {
  if (port_ == 0) {
    const Result<int> port = said_.skip_hello();
    if (!port.ok()) return port.status();
    port_ = port.value();
  }
  while (port_ != 0) {
    const Result<std::optional<Record>> record = said_.next();
    if (!record.ok()) return record.status();
    if (!record.value()) break;
    handle_record(*record.value());
  }
  return {};
}

void HostChild::handle_record(const Record& record) {
  if (record.kind == RecordKind::say) return console_.say(name() + ": " + record.text);
  if (record.kind == RecordKind::done) {
    is_done_ = true;
    running_ = 0;
    return in_.reset();
  }
  const int rank = record.number;
  if (!has(rank)) return;
  if (record.kind == RecordKind::out || record.kind == RecordKind::err) {
    console_.take(rank, record.kind == RecordKind::out ? Stream::out : Stream::err, record.text);
  } else if (record.kind == RecordKind::end && running_ > 0) {
    RankExit exit{rank, 0, 0, ""};
    int length = 0;
    std::sscanf(record.text.c_str(), "%d %d %n", &exit.exit_code, &exit.signal, &length);
    exit.what = name() + ": " + record.text.substr(static_cast<std::size_t>(length));
    --running_;
    exits_.push_back(std::move(exit));
  }
}

/// Only the first failure of a host is reported, because later ones are its consequences.
void HostChild::lose(const std::string& why) {
  if (!is_lost_) {
    exits_.push_back({first_rank_, has_job_ ? kLost : kCannotStart, 0,
                      fmt::format("{} {}: {}", has_job_ ? "lost host" : "cannot start on", name(), why),
                      ranks_});
  }
  is_lost_ = true;
  running_ = 0;
  in_.reset();
}

void HostChild::on_end(pid_t, int wait_status) {
  errors_.finish();
  std::string how = WIFSIGNALED(wait_status)
                        ? fmt::format("{} was killed by signal {}", ssh_, WTERMSIG(wait_status))
                        : fmt::format("{} ended with code {}", ssh_, WEXITSTATUS(wait_status));
  const std::string_view said = said_.buffered();
  if (port_ == 0 && !said.empty()) how += fmt::format(" after \"{}\"", said.substr(0, 200));
  constexpr int kSshFailed = 255;
  if (!has_job_ && !WIFSIGNALED(wait_status) && WEXITSTATUS(wait_status) == kSshFailed)
    how += fmt::format("; '{} {} true' must log in without a question", ssh_, name());
  if (!is_done_) lose(how);
  for (UniqueFd* fd : {&in_, &out_, &err_}) fd->reset();
}

}  // namespace kolo::cli
