#include "launch/launcher.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <memory>
#include <optional>

#include "base/deadline.hpp"
#include "base/status.hpp"
#include "bench/processes.hpp"
#include "kolo/error.hpp"
#include "kolo/store.hpp"
#include "kolo/trouble.hpp"
#include "launch/environment.hpp"
#include "launch/job.hpp"
#include "net/address.hpp"
#include "net/random.hpp"
#include "rendezvous/meeting.hpp"
#include "text/refuse.hpp"

namespace kolo::cli {
namespace {

/// Longest wait for processes that even SIGKILL does not end at once, and for the end of their output.
constexpr auto kLastWait = std::chrono::seconds(10);
/// Longer than a part needs after the grace.
constexpr auto kPartWait = kLastWait + std::chrono::seconds(5);

constexpr auto kPing = std::chrono::seconds(1);

constexpr int kCannotWrite = 1;

/// "1 rank", "2 ranks"
std::string ranks_text(int count) {
  return fmt::format("{} rank{}", count, count == 1 ? "" : "s");
}

int size_of(const LaunchOptions& options) {
  if (options.job_size > 0) return options.job_size;
  int slots = 0;
  for (const HostSlots& host : options.remote.hosts) slots += host.slots;
  if (options.elastic.is_set()) slots = std::min(slots, options.elastic.most);
  return options.remote.hosts.empty() ? options.ranks : slots;
}

}  // namespace

Job::Job(const LaunchOptions& options)
    : options_(options),
      size_(size_of(options)),
      grace_(options.grace + (options.remote.hosts.empty() ? std::chrono::seconds(0) : kPartWait)),
      console_(options.prefix_output, is_part()),
      terminals_(watched_terminals()),
      command_(options.command),
      host_list_(options.remote.hosts_file, options.remote.hosts_command),
      listed_(options.remote.hosts) {
  const bool is_local = options.remote.hosts.empty();
  if (is_local) processes_.emplace();
  if (is_local) port_.emplace(!is_part());
  if (is_part()) return;
  const JobAddresses at = choose_addresses(options.remote.hosts, options.remote.store_address);
  const std::string key = net::random_hex(32);
  store_ = serve_tcp_store(at.store, 0, key);
  std::vector<std::string> missing;
  variables_ = variables_to_pass(options.remote.variables, terminals_.any(), missing);
  for (const std::string& name : missing) console_.say(fmt::format("-x {}: it is not set here", name));
  variables_.insert(variables_.end(),
                    {"MASTER_ADDR=" + at.master, "KOLO_STORE=" + net::tcp_url(at.store, store_->port()),
                     "KOLO_STORE_SERVED=1", "KOLO_KEY=" + key});
  if (is_local) variables_.push_back(fmt::format("MASTER_PORT={}", port_->port()));
  for (const auto& [name, value] : options.environment) variables_.push_back(name + "=" + value);
  if (!is_elastic()) return;
  variables_.emplace_back("KOLO_JOIN=auto");
  roster_.emplace(
      options.elastic,
      make_prefix_store(rendezvous::meeting_prefix(1),
                        connect_tcp_store(at.store, store_->port(), key, std::chrono::seconds(5))),
      [this](const std::string& text) { console_.say(text); });
}

/// A part of a job hears from its launcher what the user watches.
Terminals Job::watched_terminals() const {
  if (is_part()) return {};
  return own_terminals(options_.prefix_output ? static_cast<int>(fmt::formatted_size("[{}] ", size_ - 1))
                                              : 0);
}

void Job::resize(const Terminals& terminals) {
  terminals_ = terminals;
  for (const auto& child : children_) child->resize(terminals);
}

void Job::start_ranks() {
  for (int r = 0; r < options_.ranks; ++r) start_rank(options_.first_rank + r, false);
}

void Job::start_rank(int number, bool is_newcomer) {
  if (roster_) roster_->start(number, is_newcomer);
  children_.push_back(
      std::make_unique<RankChild>(number, is_elastic() ? "process" : "rank", console_, exits_));
  const RankPlace place{number, size_, number - options_.first_rank, options_.ranks};
  std::vector<std::string> variables = variables_;
  if (is_newcomer) variables.emplace_back("KOLO_JOIN=always");
  children_.back()->start(command_, rank_environment(place, processes_->marks(), variables),
                          signals_.before(), false, terminals_);
}

void Job::start_host(HostSlots where, bool is_newcomer) {
  const SshOptions& remote = options_.remote;
  const std::string kolo = remote.remote_kolo.empty() ? bench::program_path() : remote.remote_kolo;
  std::string arguments =
      fmt::format("run -n {} --job-size={} --first-rank={} --grace={}", where.slots,
                  std::max(size_, next_rank_ + where.slots), next_rank_, to_seconds(options_.grace));
  if (is_elastic())
    arguments += fmt::format(" --elastic {}:{}", options_.elastic.least, options_.elastic.most);
  auto child = std::make_unique<HostChild>(where, next_rank_, console_, exits_);
  hosts_.push_back(child.get());
  children_.push_back(std::move(child));
  for (int r = 0; roster_ && r < where.slots; ++r) roster_->start(next_rank_ + r, is_newcomer);
  next_rank_ += where.slots;
  hosts_.back()->start(remote.ssh, kolo, arguments, signals_.before());
}

LaunchOutcome Job::run() {
  if (is_part()) {
    console_.tell(part_hello(port_->port()));
  } else {
    if (!is_remote()) start_ranks();
    for (const HostSlots& host : options_.remote.hosts) {
      const int slots = std::min(host.slots, size_ - next_rank_);
      if (slots > 0) start_host({host.login, slots}, false);
    }
    judge();
  }
  while (!finished()) wait_for_events();
  // With keep_going, the remaining ranks have completed the job.
  const bool is_survived = options_.keep_going && !outcome_.interrupted && outcome_.failed_rank >= 0 &&
                           outcome_.exit_code != kCannotStart && succeeded_ > 0;
  return is_survived ? LaunchOutcome{} : outcome_;
}

int Job::running() const {
  int count = 0;
  for (const auto& child : children_) count += child->running();
  return count;
}

void Job::signal_children(int signal, bool groups) {
  for (const auto& child : children_) child->signal(signal, groups);
}

void Job::wait_for_events() {
  int timeout = is_part() || is_remote() ? 500 : -1;
  for (const auto& deadline : {stop_at_, kill_at_}) {
    if (deadline) timeout = deadline->left_ms(timeout < 0 ? 1000 : timeout);
  }
  // There is no SIGCHLD for processes that are not yet children of this one.
  if (running() == 0 && may_finish_) timeout = 20;

  if (roster_) {
    serve_roster();
    if (const auto next = roster_->next()) timeout = next->left_ms(timeout < 0 ? 1000 : timeout);
  }
  if (is_remote()) serve_hosts();
  std::vector<pollfd> entries = {{signals_.fd(), POLLIN, 0},
                                 {is_part() && !is_abandoned_ ? STDIN_FILENO : -1, POLLIN, 0}};
  for (const auto& child : children_) child->watch(entries);
  console_.watch(entries);
  ::poll(entries.data(), entries.size(), timeout);
  for (std::size_t i = 0; i < children_.size(); ++i) {
    children_[i]->handle_events(std::span(entries).subspan(2 + i * Child::kEntries, Child::kEntries));
  }
  for (int signal = signals_.next(); signal != 0; signal = signals_.next()) handle_signal(signal);
  if (entries[1].revents != 0) read_launcher();
  if (is_part() && !is_paused_ && silence_.passed()) abandon();
  judge();
  if (stop_at_ && (stop_at_->passed() || running() == 0)) stop_ranks(SIGTERM);
  if (kill_at_ && kill_at_->passed()) {
    for (const HostChild* host : hosts_) {
      if (host->pid() > 0)
        console_.say(fmt::format("no answer from {}; what runs there ends when it misses us", host->name()));
    }
    if (!is_remote() && running() > 0) console_.say(ranks_text(running()) + " did not stop in time; killing");
    kill_children();
  }
  if (const int error = console_.drain(); error != 0 && !is_over()) lose_output(error);
}

/// A program that writes its own output would get SIGPIPE from a closed reader, or fail on a full disk.
void Job::lose_output(int error) {
  if (is_part()) return abandon();
  if (error == EPIPE) {
    outcome_.interrupted = true;
    outcome_.signal = SIGPIPE;
  } else {
    outcome_.exit_code = kCannotWrite;
    console_.say(Status::from_errno("cannot write the output of the ranks", error).message());
  }
  stop_ranks(SIGTERM);
}

void Job::handle_signal(int signal) {
  switch (signal) {
    case SIGCHLD:
      return reap();
    case SIGPIPE:
      return;  // write(2) reports it too
    case SIGWINCH:
      if (!is_part() && terminals_.any()) resize(watched_terminals());
      return;
    case SIGUSR1:
    case SIGUSR2:
      return signal_children(signal, false);
    case SIGCONT:
      return signal_children(signal, true);
    case SIGSTOP:  // from the launcher of this part, which sends SIGCONT when it goes on
      is_paused_ = true;
      return signal_children(SIGSTOP, true);
    case SIGTSTP:
      signal_children(SIGSTOP, true);
      ::raise(SIGSTOP);
      return signal_children(SIGCONT, true);
    default:
      break;
  }
  const bool again = signal == SIGINT && ++interrupts_ > 1;
  if (!outcome_.interrupted && outcome_.failed_rank < 0) {
    outcome_.interrupted = true;
    outcome_.signal = signal;
    if (!is_part())
      console_.say(fmt::format("SIG{}: stopping {}", ::sigabbrev_np(signal), ranks_text(running())));
  }
  stop_ranks(signal);
  // The launcher no longer waits for the reader of the output. A part's launcher is always reading.
  if (!is_part()) again ? console_.close() : console_.hurry();
  if (!again) return;
  if (!is_remote()) return kill_children();
  kill_at_ = Deadline::after(kPartWait);  // the parts have the signal, too, and kill
}

/// Ends them by `signal`, and begins the grace.
void Job::stop_ranks(int signal) {
  signal_children(signal, true);
  signal_children(SIGCONT, true);  // a stopped process handles no signal
  if (!stopping_ && !kill_at_) kill_at_ = Deadline::after(grace_);
  stop_at_.reset();
  stopping_ = true;
}

void Job::kill_children() {
  signal_children(SIGKILL, true);
  kill_at_.reset();  // then finished() also kills the processes that ranks have left behind
  give_up_ = Deadline::after(kLastWait);
}

void Job::reap() {
  int status = 0;
  for (pid_t pid = ::waitpid(-1, &status, WNOHANG); pid > 0; pid = ::waitpid(-1, &status, WNOHANG)) {
    for (const auto& child : children_) {
      if (child->pid() == pid) child->end(status);
    }
  }
}

namespace {

/// How likely it is that a failure is the cause of others that are noticed at the same time. Ranks that lose
/// a killed one fail, by an exit code or, if they do not catch the error, by SIGABRT.
int weight(const RankExit& exit) {
  if (exit.signal == SIGABRT) return 0;
  return exit.signal == 0 ? 1 : 2;
}

}  // namespace

/// The first failure determines the outcome, and ends the job. Ranks have a moment to report it, those of a
/// part too, whose launcher decides. A failure of more weight on another host then takes its place, since
/// records of two hosts may arrive in another order than their ranks failed.
void Job::judge() {
  std::vector<RankExit> failures;
  for (RankExit& exit : std::exchange(exits_, {})) {
    if (is_part()) {
      console_.tell(record(RecordKind::end, exit.rank,
                           fmt::format("{} {} {}", exit.exit_code, exit.signal, exit.what)));
    } else if (roster_ && !is_over()) {
      roster_->take_end(exit);
      if (exit.lost_ranks > 0) hear_of_lost_host(exit);
      if (exit.failed() && !roster_->has_met()) failures.push_back(exit);
      if (exit.failed()) last_failure_ = std::move(exit);
    } else if (exit.failed()) {
      failures.push_back(std::move(exit));
    } else {
      ++succeeded_;
    }
  }
  if (roster_ && failures.empty() && !is_over()) judge_roster();
  if (failures.empty()) return;
  const auto first = std::ranges::max_element(failures, {}, weight);
  const bool is_cause = stop_at_ && is_remote() && weight(*first) > weight_;
  if (is_over() && !is_cause) return;
  if (outcome_.failed_rank < 0 || is_cause) {
    outcome_.failed_rank = first->rank;
    outcome_.exit_code = first->exit_code;
    outcome_.signal = first->signal;
    weight_ = weight(*first);
  }
  if (is_cause) return console_.say(first->what);
  const int others = running();
  // A rank that cannot be started never reaches the store, so the other ranks cannot go on without it.
  if (options_.keep_going && others > 0 && first->exit_code != kCannotStart) {
    for (const RankExit& failure : failures) {
      console_.say(fmt::format("{}; {} {} on", failure.what, ranks_text(others), others > 1 ? "go" : "goes"));
    }
    return;
  }
  const bool expected = first->signal == 0 && first->exit_code == options_.quiet_code;
  const std::string which = others == 1 ? "rank" : std::to_string(others);
  if (!expected) console_.say(first->what + (others > 0 ? "; stopping the other " + which : ""));
  // No rank has met one that cannot be started, so none has anything to report.
  if (first->exit_code == kCannotStart) return stop_ranks(SIGTERM);
  stop_at_ = Deadline::after(kReportTime);
}

bool Job::finished() {
  if (!may_finish_) return false;
  if (running() > 0 && !(give_up_ && give_up_->passed())) return false;
  if (!give_up_ && !kill_at_ && !stopping_) kill_at_ = Deadline::after(grace_);
  // The deadline restarts while the reader of the output is slow: a slow reader is not a process that does
  // not end.
  if (!give_up_ || (!gave_up_ && console_.ready() != OutputReady{}))
    give_up_ = Deadline::after(grace_ + kLastWait);
  if (!clean_up(!kill_at_)) {
    if (!give_up_->passed()) return false;
    const std::vector<pid_t> left = processes_ ? processes_->living() : std::vector<pid_t>{};
    if (!std::exchange(gave_up_, true) && !left.empty())
      console_.say(fmt::format("{} process(es) of the job do not end, among them {}", left.size(), left[0]));
  }
  judge();
  if (is_part() && !std::exchange(is_done_, true)) console_.tell(record(RecordKind::done));
  if (!console_.finish()) return false;
  if (const int error = console_.drain(); error != 0 && !is_over()) lose_output(error);
  return console_.finish();  // lose_output() may have queued a message
}

/// Ends the processes that ranks left behind (`kill`: at once) and takes the last output as far as the
/// console takes it. True when nothing is left.
bool Job::clean_up(bool kill) {
  reap();
  for (HostChild* host : hosts_) host->finish_part();
  if (is_remote()) {
    for (const auto& child : children_) {
      if (child->ranks() == 0) child->signal(SIGKILL, true);  // a command that lists hosts
    }
    return std::ranges::all_of(children_, [](const auto& child) { return child->pid() < 0; });
  }
  const std::vector<pid_t> left = processes_->living();
  if (!left.empty() && (!leftovers_told_ || kill)) {
    for (const pid_t pid : left) ::kill(pid, kill ? SIGKILL : SIGTERM);
    for (const pid_t pid : left) ::kill(pid, SIGCONT);
    leftovers_told_ = true;
  }
  if (!left.empty()) return false;
  // All known writers have ended, so the streams have ended, unless a process that was not found holds them
  // open.
  bool is_done = true;
  for (const auto& child : children_) is_done = child->finish() && is_done;
  return is_done;
}

/// No rank starts before all hosts have answered.
void Job::serve_hosts() {
  if (!has_job_ && !stopping_ &&
      std::all_of(hosts_.begin(), hosts_.end(), [](HostChild* h) { return h->port(); })) {
    has_job_ = true;
    variables_.push_back(fmt::format("MASTER_PORT={}", hosts_[0]->port()));
    for (HostChild* host : hosts_) host->send_job(variables_, command_, terminals_);
    variables_.emplace_back("KOLO_JOIN=always");  // on hosts that come later
  }
  for (HostChild* host : hosts_) {
    if (has_job_ && !stopping_ && host->port() != 0 && !host->has_job())
      host->send_job(variables_, command_, terminals_);
  }
  for (HostChild* host : hosts_) host->tell_ready();
  if (!ping_at_.passed()) return;
  ping_at_ = Deadline::after(kPing);
  for (HostChild* host : hosts_) host->ping();
}

LaunchOutcome launch_ranks(const LaunchOptions& options) {
  if (const int size = size_of(options); size < 1 || size > kLargestJob)
    refuse("cannot start {} ranks: from 1 to {}", size, kLargestJob);
  // Descriptors 0 to 2 must be open, or a pipe of the launcher would become a rank's standard input.
  int fd;
  while ((fd = ::open("/dev/null", O_RDWR | O_CLOEXEC)) >= 0 && fd <= 2) {
  }
  if (fd > 2) ::close(fd);
  try {
    return Job(options).run();
  } catch (const RendezvousError& error) {  // a host has no address or no route, or the store has none
    fmt::print(stderr, "kolo: {}\n", with_code(error.what()));
    return {.failed_rank = 0, .exit_code = kCannotStart};
  }
}

}  // namespace kolo::cli
