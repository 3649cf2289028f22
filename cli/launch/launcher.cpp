#include "launch/launcher.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <optional>
#include <string_view>

#include "base/deadline.hpp"
#include "base/status.hpp"
#include "bench/processes.hpp"
#include "kolo/error.hpp"
#include "kolo/store.hpp"
#include "launch/console.hpp"
#include "launch/local_ranks.hpp"
#include "launch/part.hpp"
#include "launch/remote_ranks.hpp"
#include "launch/reserved_port.hpp"
#include "launch/secret.hpp"
#include "launch/signals.hpp"
#include "net/address.hpp"

namespace kolo::cli {
namespace {

/// Longest wait, after the ranks have ended, for processes that even SIGKILL does not end at once, and for
/// the end of their output.
constexpr auto kLastWait = std::chrono::seconds(10);

constexpr int kCannotWrite = 1;

using Variables = std::vector<std::pair<std::string, std::string>>;

/// The variables of this environment that ranks on other hosts get.
Variables variables_to_pass(const SshOptions& remote, Console& console) {
  Variables passed;
  const auto add = [&](std::string_view entry) {
    const auto equals = entry.find('=');
    passed.emplace_back(entry.substr(0, equals), entry.substr(equals + 1));
  };
  for (const std::string& entry : own_environment()) {
    if (entry.starts_with("KOLO_") || entry.starts_with("OMP_NUM_THREADS=")) add(entry);
  }
  for (const std::string& wanted : remote.variables) {
    if (wanted.find('=') != std::string::npos) {
      add(wanted);
    } else if (const char* value = std::getenv(wanted.c_str())) {
      passed.emplace_back(wanted, value);
    } else {
      console.say(fmt::format("-x {}: it is not set here", wanted));
    }
  }
  // This process's own store and key are not those of the job.
  std::erase_if(passed, [](const auto& one) {
    return one.first.starts_with("KOLO_STORE") || one.first.starts_with("KOLO_KEY");
  });
  return passed;
}

/// One run of a program, from the first process to the last wait.
class Job {
 public:
  explicit Job(const LaunchOptions& options);
  LaunchOutcome run();

 private:
  void start_here();
  void start_on_hosts();
  Variables meeting_variables(const std::string& store, const std::string& master);

  void take(int rank, Stream stream, std::string_view bytes);
  void wait_for_events(int timeout_ms);
  void hear_signal(int signal);
  void judge(const std::vector<Ending>& endings);
  void stop_ranks();
  void lose_output(int error);
  bool finished();

  const LaunchOptions& options_;
  const int size_;
  const std::string key_ = random_secret();
  Signals signals_;
  std::unique_ptr<TcpStoreServer> store_;
  std::optional<ReservedPort> master_port_;
  Console console_;
  std::unique_ptr<Ranks> ranks_;
  LaunchOutcome outcome_;
  int failures_ = 0;    ///< ranks
  int interrupts_ = 0;  ///< SIGINTs received
  bool stopping_ = false;
  std::optional<Deadline> kill_at_;  ///< when the grace period after SIGTERM ends
  std::optional<Deadline> give_up_;  ///< when to stop waiting for processes that do not end
  bool gave_up_ = false;
};

int size_of(const LaunchOptions& options) {
  int slots = 0;
  for (const HostSlots& host : options.remote.hosts) slots += host.slots;
  return options.remote.hosts.empty() ? options.ranks : slots;
}

Job::Job(const LaunchOptions& options)
    : options_(options), size_(size_of(options)), console_(size_, options.prefix_output) {
  options.remote.hosts.empty() ? start_here() : start_on_hosts();
}

Variables Job::meeting_variables(const std::string& store, const std::string& master) {
  store_ = serve_tcp_store(store, 0, key_);
  return {{"MASTER_ADDR", master},
          {"KOLO_STORE", tcp_url(store, store_->port())},
          {"KOLO_STORE_SERVED", "1"},
          {"KOLO_KEY", key_}};
}

void Job::start_here() {
  master_port_.emplace(true);
  LocalPart part;
  part.ranks = part.size = size_;
  part.command = options_.command;
  part.environment = meeting_variables("127.0.0.1", "127.0.0.1");
  part.environment.emplace_back("MASTER_PORT", std::to_string(master_port_->port()));
  part.environment.insert(part.environment.end(), options_.environment.begin(), options_.environment.end());
  ranks_ = std::make_unique<LocalRanks>(
      std::move(part), signals_.before(),
      [this](int rank, Stream stream, std::string_view bytes) { take(rank, stream, bytes); });
}

void Job::start_on_hosts() {
  const SshOptions& remote = options_.remote;
  RemotePart part;
  part.hosts = remote.hosts;
  part.ssh = remote.ssh;
  part.kolo = remote.remote_kolo.empty() ? bench::program_path() : remote.remote_kolo;
  part.directory = std::filesystem::current_path().string();
  part.command = options_.command;
  part.environment = variables_to_pass(remote, console_);
  const Meet meet = choose_meeting(remote.hosts, remote.store_address);
  const Variables meeting = meeting_variables(meet.store, meet.master);
  part.environment.insert(part.environment.end(), meeting.begin(), meeting.end());
  part.environment.insert(part.environment.end(), options_.environment.begin(), options_.environment.end());
  ranks_ = std::make_unique<RemoteRanks>(
      std::move(part), signals_.before(),
      [this](int rank, Stream stream, std::string_view bytes) { take(rank, stream, bytes); },
      [this](const std::string& who, std::string_view line) { console_.say_for(who, line); });
}

LaunchOutcome Job::run() {
  ranks_->start();
  judge(ranks_->take_endings());
  while (!finished()) {
    const bool last_things = ranks_->running() == 0;
    int timeout = kill_at_ ? kill_at_->left_ms() : -1;
    if (const int tick = ranks_->tick_ms(); tick > 0) timeout = timeout < 0 ? tick : std::min(timeout, tick);
    if (last_things) timeout = 20;  // there is no SIGCHLD for processes that are not yet children of this one
    wait_for_events(timeout);
  }
  // With keep_going, the remaining ranks have completed the job.
  const bool is_survived = options_.keep_going && !outcome_.interrupted && failures_ < size_;
  return is_survived && outcome_.exit_code != kCannotStart ? LaunchOutcome{} : outcome_;
}

void Job::stop_ranks() {
  if (stopping_) return;
  stopping_ = true;
  kill_at_ = Deadline::after(options_.grace);
  ranks_->signal(SIGTERM, true);
  ranks_->signal(SIGCONT, true);  // a stopped process hears nothing
}

void Job::take(int rank, Stream stream, std::string_view bytes) {
  // After a second SIGINT the output is dropped, because the launcher no longer waits for its reader.
  if (interrupts_ < 2) console_.take(rank, stream, bytes);
}

void Job::wait_for_events(int timeout_ms) {
  std::vector<pollfd> entries = {{signals_.fd(), POLLIN, 0}};
  console_.watch(entries);
  const std::size_t own = entries.size();
  ranks_->watch(entries, console_.room());
  ::poll(entries.data(), entries.size(), timeout_ms);
  ranks_->hear(std::span(entries).subspan(own));
  if (entries[0].revents != 0) {
    for (int signal = signals_.next(); signal != 0; signal = signals_.next()) hear_signal(signal);
  }
  judge(ranks_->take_endings());
  if (kill_at_ && kill_at_->passed()) {
    if (const int left = ranks_->running())
      console_.say(fmt::format("{} rank{} did not stop in time; killing", left, left > 1 ? "s" : ""));
    ranks_->signal(SIGKILL, true);
    kill_at_.reset();
  }
  if (const int error = console_.drain(); error != 0 && !stopping_) lose_output(error);
}

/// The job ends if its output cannot be written. A program that writes its own output would get SIGPIPE from
/// a closed reader, or fail on a full disk.
void Job::lose_output(int error) {
  if (error == EPIPE) {
    outcome_.interrupted = true;
    outcome_.signal = SIGPIPE;
  } else {
    outcome_.exit_code = kCannotWrite;
    console_.say(Status::from_errno("cannot write the output of the ranks", error).message());
  }
  stop_ranks();
}

void Job::hear_signal(int signal) {
  switch (signal) {
    case SIGCHLD:
      return ranks_->reap();
    case SIGPIPE:
      return;  // write(2) reports it too
    case SIGUSR1:
    case SIGUSR2:
      return ranks_->signal(signal, false);
    case SIGTSTP:
      ranks_->signal(SIGSTOP, true);
      ::raise(SIGSTOP);
      return ranks_->signal(SIGCONT, true);
    default:
      break;
  }
  const bool again = signal == SIGINT && ++interrupts_ > 1;
  if (!outcome_.interrupted && outcome_.failed_rank < 0) {
    outcome_.interrupted = true;
    outcome_.signal = signal;
    const int running = ranks_->running();
    console_.say(
        fmt::format("{}: stopping {} rank{}", signal_name(signal), running, running == 1 ? "" : "s"));
  }
  ranks_->signal(signal, true);
  ranks_->signal(SIGCONT, true);  // a stopped process hears nothing
  if (again) {
    ranks_->signal(SIGKILL, true);
    stopping_ = true;
    kill_at_.reset();  // then finish() also kills the processes that ranks have left behind
    console_.discard();
  } else if (!kill_at_ && !stopping_) {
    stopping_ = true;
    kill_at_ = Deadline::after(options_.grace);
  }
}

/// The first failure determines the outcome. Among several failures noticed at once, a rank that a signal
/// ended is the likelier cause: the other ranks may have failed because they lost it.
void Job::judge(const std::vector<Ending>& endings) {
  if (stopping_ || endings.empty()) return;
  const Ending* first = &endings[0];
  for (const Ending& ending : endings) {
    if (ending.signal != 0 && first->signal == 0) first = &ending;
  }
  failures_ += static_cast<int>(endings.size());
  if (outcome_.failed_rank < 0) {
    outcome_.failed_rank = first->rank;
    outcome_.exit_code = first->exit_code;
    outcome_.signal = first->signal;
  }
  const int others = ranks_->running();
  // A rank that cannot be started never reaches the store, so the other ranks cannot go on without it.
  const bool goes_on = options_.keep_going && others > 0 && first->exit_code != kCannotStart;
  if (goes_on) {
    for (const Ending& ending : endings) {
      console_.say(fmt::format("{}; {} rank{} on", ending.what, others, others > 1 ? "s go" : " goes"));
    }
    return;
  }
  const bool expected = first->signal == 0 && first->exit_code == options_.quiet_code;
  if (!expected)
    console_.say(first->what + (others > 0 ? fmt::format("; stopping the other {}", others) : ""));
  stop_ranks();
}

bool Job::finished() {
  if (ranks_->running() > 0) return false;
  if (!give_up_ && !kill_at_ && !stopping_) kill_at_ = Deadline::after(options_.grace);
  const Room room = console_.room();
  // The deadline restarts while the reader of the output is slow: a slow reader is not a process that does
  // not end.
  if (!give_up_ || (!gave_up_ && room != Room{})) give_up_ = Deadline::after(options_.grace + kLastWait);
  if (!ranks_->finish(!kill_at_, room)) {
    if (!give_up_->passed()) return false;
    const std::string left = gave_up_ ? "" : ranks_->leftovers();
    if (!left.empty()) console_.say(left);
    gave_up_ = true;
  }
  judge(ranks_->take_endings());
  if (!console_.finish()) return false;
  if (const int error = console_.drain(); error != 0 && !stopping_) lose_output(error);
  return console_.finish();  // lose_output() may have queued a message
}

}  // namespace

int LaunchOutcome::status() const {
  if (signal != 0) return 128 + signal;
  return exit_code;
}

LaunchOutcome launch_ranks(const LaunchOptions& options) {
  if (const int size = size_of(options); size < 1 || size > kLargestJob)
    throw InvalidArgument(fmt::format("cannot start {} ranks: from 1 to {}", size, kLargestJob), {});
  // Descriptors 0 to 2 must be open, or a pipe of the launcher would become a rank's standard input.
  while (true) {
    const int fd = ::open("/dev/null", O_RDWR | O_CLOEXEC);
    if (fd < 0 || fd > 2) {
      if (fd > 2) ::close(fd);
      break;
    }
  }
  return Job(options).run();
}

}  // namespace kolo::cli
