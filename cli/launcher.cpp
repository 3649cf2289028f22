#include "launcher.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <string_view>

#include "base/deadline.hpp"
#include "base/status.hpp"
#include "base/unique_fd.hpp"
#include "kolo/store.hpp"
#include "launch/job_processes.hpp"
#include "launch/output.hpp"
#include "launch/rank_process.hpp"
#include "launch/signals.hpp"

namespace kolo::cli {
namespace {

constexpr int kCannotStart = 127;
/// After the ranks have ended: longest wait for processes that even SIGKILL does not end at once, and for the
/// end of their output.
constexpr auto kLastWait = std::chrono::seconds(10);

std::string random_key() {
  std::array<unsigned char, 32> bytes;
  if (::getentropy(bytes.data(), bytes.size()) != 0) {
    Status::from_errno("cannot make a key for the job", errno).throw_if_error();
  }
  std::string text;
  for (const unsigned char byte : bytes) text += fmt::format("{:02x}", byte);
  return text;
}

/// A loopback port that the system gives to nobody else, for as long as this lives; a server that sets
/// SO_REUSEADDR, as all do, can still bind it.
class ReservedPort {
 public:
  ReservedPort() : fd_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    const int on = 1;
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    auto* generic = reinterpret_cast<sockaddr*>(&address);
    socklen_t length = sizeof(address);
    if (::setsockopt(fd_.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) != 0 ||
        ::bind(fd_.get(), generic, length) != 0 || ::getsockname(fd_.get(), generic, &length) != 0) {
      Status::from_errno("cannot reserve a port on 127.0.0.1", errno).throw_if_error();
    }
    port_ = ntohs(address.sin_port);
  }
  int port() const { return port_; }

 private:
  UniqueFd fd_;
  int port_ = 0;
};

/// Orphans of the job become our children, so that they can be found and waited for.
class Adoption {
 public:
  Adoption() {
    ::prctl(PR_GET_CHILD_SUBREAPER, &before_);
    ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  }
  Adoption(const Adoption&) = delete;
  Adoption& operator=(const Adoption&) = delete;
  ~Adoption() { ::prctl(PR_SET_CHILD_SUBREAPER, before_); }

 private:
  int before_ = 0;
};

bool same_file(int a, int b) {
  struct stat x {};
  struct stat y {};
  return ::fstat(a, &x) == 0 && ::fstat(b, &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

/// "[3] ", in a colour of the rank's own on a terminal.
std::string prefix_for(int rank, const Sink& sink) {
  constexpr std::array kColors = {36, 33, 32, 35, 34, 96, 93, 92, 95, 94};
  const std::string text = fmt::format("[{}] ", rank);
  if (!sink.colored()) return text;
  return fmt::format("\033[{}m{}\033[0m", kColors[static_cast<std::size_t>(rank) % kColors.size()], text);
}

/// One run of a program, from the first fork to the last wait.
class Job {
 public:
  explicit Job(const LaunchOptions& options)
      : options_(options), key_(random_key()), out_(STDOUT_FILENO), err_(STDERR_FILENO) {}

  LaunchOutcome run();

 private:
  struct Rank {
    pid_t pid = -1;
    bool running = false;
    int status = 0;  ///< of waitpid(2), once it has ended
    UniqueFd out;
    UniqueFd err;
    std::unique_ptr<LineCutter> out_lines;
    std::unique_ptr<LineCutter> err_lines;
  };

  bool start_all();
  std::vector<std::string> environment_for(int rank) const;
  int running() const;
  void signal_ranks(int signal, bool groups);
  void stop_ranks();
  void say(const std::string& text) { err().line("kolo: ", text); }
  /// Where both are the same terminal or file, one queue keeps their lines apart.
  Sink& err() { return one_sink_ ? out_ : err_; }

  void wait_for_events(int timeout_ms);
  void hear_signals();
  void hear_signal(int signal);
  void reap();
  void judge(const std::vector<Rank*>& ended);
  void read_rank(Rank& rank);
  static bool read_stream(UniqueFd& fd, LineCutter& lines);
  void write_sinks();
  bool sweep();
  bool finished();

  const LaunchOptions& options_;
  const std::string key_;
  Signals signals_;
  Adoption adoption_;
  Keeper keeper_;
  ReservedPort master_port_;
  std::unique_ptr<TcpStoreServer> store_;
  Sink out_;
  Sink err_;
  const bool one_sink_ = same_file(STDOUT_FILENO, STDERR_FILENO);
  std::vector<Rank> ranks_;
  LaunchOutcome outcome_;
  int interrupts_ = 0;  ///< SIGINTs heard
  bool stopping_ = false;
  std::optional<Deadline> kill_at_;  ///< when SIGTERM has been heard for long enough
  std::optional<Deadline> give_up_;  ///< when the last leftovers are past helping
  bool leftovers_told_ = false;
};

std::vector<std::string> Job::environment_for(int rank) const {
  std::map<std::string, std::string> variables;
  for (char** at = environ; *at; ++at) {
    const std::string_view entry(*at);
    const auto equals = entry.find('=');
    if (equals == std::string_view::npos) continue;
    // An outer torchrun's remarks on its own store are not about this job, nor is another job's key.
    if (entry.starts_with("TORCHELASTIC_") || entry.starts_with("KOLO_KEY_FILE=")) continue;
    variables[std::string(entry.substr(0, equals))] = entry.substr(equals + 1);
  }
  const std::string size = std::to_string(options_.ranks);
  variables["RANK"] = variables["LOCAL_RANK"] = std::to_string(rank);
  variables["WORLD_SIZE"] = variables["LOCAL_WORLD_SIZE"] = size;
  variables["MASTER_ADDR"] = "127.0.0.1";
  variables["MASTER_PORT"] = std::to_string(master_port_.port());
  variables["KOLO_STORE"] = fmt::format("tcp://127.0.0.1:{}", store_->port());
  variables["KOLO_STORE_SERVED"] = "1";
  variables["KOLO_KEY"] = key_;
  if (options_.ranks > 1) variables.try_emplace("OMP_NUM_THREADS", "1");
  for (const auto& [name, value] : options_.environment) variables[name] = value;

  std::vector<std::string> list;
  for (const auto& [name, value] : variables) list.push_back(name + "=" + value);
  return list;
}

bool Job::start_all() {
  Program program;
  program.arguments = options_.command;
  program.signals = signals_.before();
  Result<std::string> path = options_.command.empty() ? Status(Code::invalid_argument, "no program was named")
                                                      : find_program(options_.command[0]);
  if (path.ok()) program.path = path.value();
  Status status = path.status();
  ranks_.resize(static_cast<std::size_t>(options_.ranks));
  for (int r = 0; r < options_.ranks && status.ok(); ++r) {
    Result<RankProcess> process = start_rank(program, environment_for(r));
    status = process.status();
    if (!status.ok()) {
      outcome_.failed_rank = r;
      break;
    }
    Rank& rank = ranks_[static_cast<std::size_t>(r)];
    rank.pid = process->pid;
    rank.running = true;
    rank.out = std::move(process->out);
    rank.err = std::move(process->err);
    const bool prefix = options_.prefix_output;
    rank.out_lines = std::make_unique<LineCutter>(out_, prefix ? prefix_for(r, out_) : "");
    rank.err_lines = std::make_unique<LineCutter>(err(), prefix ? prefix_for(r, err()) : "");
  }
  if (status.ok()) return true;
  say("cannot start " + status.message());
  outcome_.failed_rank = std::max(outcome_.failed_rank, 0);
  outcome_.exit_code = kCannotStart;
  return false;
}

LaunchOutcome Job::run() {
  Result<Keeper> keeper = Keeper::start("KOLO_KEY=" + key_);
  keeper_ = std::move(keeper).value_or_throw();
  store_ = serve_tcp_store("127.0.0.1", 0, key_);
  if (!start_all()) stop_ranks();
  while (!finished()) {
    const bool last_things = running() == 0;
    int timeout = kill_at_ ? kill_at_->left_ms() : -1;
    if (last_things) timeout = 20;  // nothing tells us of the end of processes that are not our children yet
    wait_for_events(timeout);
  }
  return outcome_;
}

int Job::running() const {
  int count = 0;
  for (const Rank& rank : ranks_) count += rank.running ? 1 : 0;
  return count;
}

void Job::signal_ranks(int signal, bool groups) {
  for (const Rank& rank : ranks_) {
    // Not those that have ended: the system may have given their numbers away. sweep() ends what they left.
    if (rank.running) ::kill(groups ? -rank.pid : rank.pid, signal);
  }
}

void Job::stop_ranks() {
  if (stopping_) return;
  stopping_ = true;
  kill_at_ = Deadline::after(options_.grace);
  signal_ranks(SIGTERM, true);
  signal_ranks(SIGCONT, true);  // a stopped process hears nothing
}

void Job::wait_for_events(int timeout_ms) {
  std::vector<pollfd> entries = {{signals_.fd(), POLLIN, 0}};
  for (const Sink* sink : {&out_, &err_}) {
    if (sink->pending()) entries.push_back({sink->fd(), POLLOUT, 0});
  }
  std::vector<Rank*> speakers(entries.size());
  for (Rank& rank : ranks_) {
    const bool room_out = rank.out.valid() && !out_.full();
    const bool room_err = rank.err.valid() && !err().full();
    if (room_out) entries.push_back({rank.out.get(), POLLIN, 0});
    if (room_err) entries.push_back({rank.err.get(), POLLIN, 0});
    speakers.resize(entries.size(), &rank);
  }
  ::poll(entries.data(), entries.size(), timeout_ms);
  for (std::size_t i = 0; i < entries.size(); ++i) {
    if (speakers[i] && entries[i].revents != 0) read_rank(*speakers[i]);
  }
  if (entries[0].revents != 0) hear_signals();
  if (kill_at_ && kill_at_->passed()) {
    if (const int left = running())
      say(fmt::format("{} rank{} did not stop in time; killing", left, left > 1 ? "s" : ""));
    signal_ranks(SIGKILL, true);
    kill_at_.reset();
  }
  write_sinks();
}

void Job::hear_signals() {
  for (int signal = signals_.next(); signal != 0; signal = signals_.next()) hear_signal(signal);
}

void Job::hear_signal(int signal) {
  switch (signal) {
    case SIGCHLD:
      return reap();
    case SIGPIPE:
      return;  // write(2) has told us
    case SIGUSR1:
    case SIGUSR2:
      return signal_ranks(signal, false);
    case SIGTSTP:
      signal_ranks(SIGSTOP, true);
      ::raise(SIGSTOP);
      return signal_ranks(SIGCONT, true);
    default:
      break;
  }
  const bool again = signal == SIGINT && ++interrupts_ > 1;
  if (!outcome_.interrupted && outcome_.failed_rank < 0) {
    outcome_.interrupted = true;
    outcome_.signal = signal;
    say(fmt::format("{}: stopping {} rank{}", signal_name(signal), running(), running() == 1 ? "" : "s"));
  }
  signal_ranks(signal, true);
  signal_ranks(SIGCONT, true);  // a stopped process hears nothing
  if (again) {
    signal_ranks(SIGKILL, true);
    out_.discard();
    err_.discard();
  } else if (!kill_at_ && !stopping_) {
    stopping_ = true;
    kill_at_ = Deadline::after(options_.grace);
  }
}

void Job::reap() {
  std::vector<Rank*> ended;
  int status = 0;
  for (pid_t pid = ::waitpid(-1, &status, WNOHANG); pid > 0; pid = ::waitpid(-1, &status, WNOHANG)) {
    for (Rank& rank : ranks_) {
      if (!rank.running || rank.pid != pid) continue;
      rank.running = false;
      rank.status = status;
      ended.push_back(&rank);
    }
  }
  judge(ended);
}

/// The first failure decides. Of several that were noticed at once, a rank that a signal ended is the
/// likelier cause: the others may have failed because it was gone.
void Job::judge(const std::vector<Rank*>& ended) {
  if (stopping_ || outcome_.failed_rank >= 0) return;
  const Rank* first = nullptr;
  for (Rank* rank : ended) {
    if (rank->status == 0) continue;
    if (!first || (WIFSIGNALED(rank->status) && !WIFSIGNALED(first->status))) first = rank;
  }
  if (!first) return;
  outcome_.failed_rank = static_cast<int>(first - ranks_.data());
  std::string how;
  if (WIFSIGNALED(first->status)) {
    outcome_.signal = WTERMSIG(first->status);
    how = fmt::format("was killed by signal {} ({})", outcome_.signal, ::strsignal(outcome_.signal));
  } else {
    outcome_.exit_code = WEXITSTATUS(first->status);
    how = fmt::format("exited with code {}", outcome_.exit_code);
  }
  read_rank(ranks_[static_cast<std::size_t>(outcome_.failed_rank)]);  // its last words come first
  const int others = running();
  const std::string rest = others > 0 ? fmt::format("; stopping the other {}", others) : "";
  say(fmt::format("rank {} (pid {}) {}{}", outcome_.failed_rank, first->pid, how, rest));
  stop_ranks();
}

void Job::read_rank(Rank& rank) {
  while (rank.out.valid() && !out_.full() && read_stream(rank.out, *rank.out_lines)) {
  }
  while (rank.err.valid() && !err().full() && read_stream(rank.err, *rank.err_lines)) {
  }
}

/// False when there is no more for now.
bool Job::read_stream(UniqueFd& fd, LineCutter& lines) {
  std::array<char, 1 << 16> block;
  const ssize_t got = ::read(fd.get(), block.data(), block.size());
  if (got > 0) lines.feed({block.data(), static_cast<std::size_t>(got)});
  if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR)) {
    lines.finish();
    fd.reset();
  }
  return got > 0;
}

void Job::write_sinks() {
  for (Sink* sink : {&out_, &err_}) {
    if (sink->drain()) continue;
    // Nobody reads us any more. A program that writes for itself would get SIGPIPE, and so the job ends.
    sink->discard();
    if (stopping_) continue;
    outcome_.interrupted = true;
    outcome_.signal = SIGPIPE;
    stop_ranks();
  }
}

/// After the ranks: ends what they left behind. True when nothing is left.
bool Job::sweep() {
  reap();
  if (!give_up_) give_up_ = Deadline::after(options_.grace + kLastWait);
  std::vector<pid_t> left = job_processes("KOLO_KEY=" + key_, ::getpid());
  std::erase(left, keeper_.pid());
  if (left.empty()) return true;
  if (!leftovers_told_) {
    leftovers_told_ = true;
    if (!kill_at_ && !stopping_) kill_at_ = Deadline::after(options_.grace);
    for (const pid_t pid : left) ::kill(pid, SIGTERM);
    for (const pid_t pid : left) ::kill(pid, SIGCONT);
  }
  if (!kill_at_) {
    for (const pid_t pid : left) ::kill(pid, SIGKILL);
  }
  if (!give_up_->passed()) return false;
  say(fmt::format("{} process(es) of the job do not end, among them {}", left.size(), left[0]));
  return true;
}

bool Job::finished() {
  if (running() > 0 || !sweep()) return false;
  // All writers are gone, so the streams have ends, unless somebody holds them who hid from the sweep.
  bool open = false;
  for (Rank& rank : ranks_) {
    read_rank(rank);
    open = open || rank.out.valid() || rank.err.valid();
  }
  if (open && !give_up_->passed()) {
    write_sinks();
    return false;
  }
  out_.end_update();
  err_.end_update();
  write_sinks();
  return !out_.pending() && !err_.pending();
}

}  // namespace

int LaunchOutcome::status() const {
  if (signal != 0) return 128 + signal;
  return exit_code;
}

LaunchOutcome launch_ranks(const LaunchOptions& options) {
  if (options.ranks < 1) throw InvalidArgument(fmt::format("cannot start {} ranks", options.ranks), {});
  // Descriptors 0 to 2 must be taken, or a pipe of ours would become a rank's standard input.
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
