#include "stress/job.hpp"

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <deque>
#include <filesystem>
#include <fstream>
#include <functional>
#include <stdexcept>
#include <thread>

#include <fcntl.h>

#include "stress/control.hpp"
#include "stress/member.hpp"
#include "stress/round.hpp"

namespace kolo::stress {
namespace {

constexpr std::size_t kFirst = 3;  // processes at the start
constexpr std::size_t kMost = 6;
constexpr std::uint64_t kSumsTogether = 2;
constexpr double kNoticed = 1;  // after a cut, if there was a connection to cut
constexpr std::size_t kLogLines = 60;
/// What a process may hold more of at the end than when it had taken part in a fifth of the events.
constexpr int kMoreDescriptors = 30;
constexpr long kMoreKilobytes = 16 << 10;

struct EventShare {
  Event event;
  unsigned percent;
};
constexpr EventShare kEventShares[kEvents] = {
    {Event::join, 26},         {Event::kill, 20},         {Event::kill_first, 10}, {Event::kill_returned, 10},
    {Event::join_and_kill, 8}, {Event::kill_newcomer, 7}, {Event::kill_two, 7},    {Event::refuse, 4},
    {Event::pause, 4},         {Event::cut, 3},           {Event::stop, 1}};

void wait_for(double time) {
  std::this_thread::sleep_for(std::chrono::duration<double>(time));
}

class Job {
 public:
  Job(std::uint64_t seed, const JobLimits& limits);
  ~Job();
  Job(const Job&) = delete;

  JobOutcome run(std::uint64_t events);

 private:
  struct Process {
    pid_t pid;
    int number;
    std::size_t slot;
  };

  MemberReport& report(const Process& process) const { return control_->members[process.slot]; }
  bool is_spared(const Process& process) const { return process.number == spared_; }
  void start(int size = 0, const char* program = "this program", const char* process = nullptr);
  std::size_t draw_victim();
  void kill_one(std::size_t which);
  Event draw();
  void apply(Event event);
  bool await(const std::function<bool()>& condition) const;
  void refuse();
  void stop();
  void cut();
  bool are_together(const std::vector<std::uint64_t>& sums) const;
  void settle(Event event);
  void watch_growth(bool is_end);
  void end();
  void count(const Process& process);
  void fault(const Process& process, const std::string& what);
  void add_log();

  const JobLimits& limits_;
  Random random_;
  Role role_;
  std::string folder_;
  JobControl* control_;
  std::vector<Process> alive_;
  std::deque<Process> strangers_;
  int numbers_ = 0;
  int spared_ = 0;  ///< the number of a process that is not killed; 0: none
  int descriptors_ = 0;
  long resident_kb_ = 0;
  JobOutcome outcome_;
};

Job::Job(std::uint64_t seed, const JobLimits& limits) : limits_(limits), random_(seed) {
  std::string name = (std::filesystem::temp_directory_path() / (folder_prefix() + "XXXXXX")).string();
  if (mkdtemp(name.data()) == nullptr) throw std::runtime_error("mkdtemp");
  folder_ = name;
  void* pages = mmap(nullptr, sizeof(JobControl), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (pages == MAP_FAILED) throw std::runtime_error("mmap");
  control_ = new (pages) JobControl{};
  const auto& transports = limits.calls.transports;
  role_.transport = transports[random_.below(transports.size())];
  if (random_.chance(50)) role_.file = folder_ + "/store";
  for (std::size_t i = 0; i < kFirst; ++i) start(kFirst);
  if (random_.chance(50)) spared_ = alive_.back().number;
}

Job::~Job() {
  for (const auto& process : alive_) strangers_.push_back(process);
  for (const Process& process : strangers_) {
    kill(process.pid, SIGKILL);
    waitpid(process.pid, nullptr, 0);
  }
  munmap(control_, sizeof(JobControl));
  std::error_code ignored;
  std::filesystem::remove_all(folder_, ignored);
}

/// `size`: of the first group; 0: a newcomer. With `process`, or another program, it is to be refused.
void Job::start(int size, const char* program, const char* process) {
  const auto is_used = [&](std::size_t slot) {
    return std::ranges::any_of(alive_, [&](const Process& one) { return one.slot == slot; });
  };
  Role role = role_;
  role.number = ++numbers_;
  role.size = size;
  role.program = program;
  role.is_stranger = process != nullptr;
  while (is_used(role.slot)) ++role.slot;
  role.process = process != nullptr ? process : "slot " + std::to_string(role.slot);
  new (&control_->members[role.slot]) MemberReport{};
  const pid_t child = fork();
  if (child < 0) throw std::runtime_error("fork");
  if (child == 0) {
    setenv("KOLO_LOG", "info", 1);
    dup2(open((folder_ + "/log").c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600), STDERR_FILENO);
    be_member(role, limits_.calls, *control_);
  }
  if (role.is_stranger) {
    strangers_.push_back({child, role.number, role.slot});
  } else {
    alive_.push_back({child, role.number, role.slot});
  }
}

void Job::fault(const Process& process, const std::string& what) {
  outcome_.faults.push_back("process " + std::to_string(process.number) + " (slot " +
                            std::to_string(process.slot) + "): " + what);
}

/// One that may be killed.
std::size_t Job::draw_victim() {
  for (;;) {
    const auto which = static_cast<std::size_t>(random_.below(alive_.size()));
    if (!is_spared(alive_[which])) return which;
  }
}

void Job::kill_one(std::size_t which) {
  const Process victim = alive_[which];
  alive_.erase(alive_.begin() + static_cast<std::ptrdiff_t>(which));
  kill(victim.pid, SIGKILL);
  int status = 0;
  waitpid(victim.pid, &status, 0);
  if (WIFEXITED(status)) fault(victim, std::string("it has ended: ") + report(victim).fault);
  count(victim);
}

void Job::count(const Process& process) {
  outcome_.sums += report(process).sums;
  outcome_.left_out += report(process).times_left_out;
  outcome_.joined_again += report(process).joined_again;
}

bool Job::await(const std::function<bool()>& condition) const {
  for (const double until = now() + limits_.patience; !condition();) {
    if (now() > until) return false;
    std::this_thread::sleep_for(std::chrono::microseconds(200));
  }
  return true;
}

/// An event for which there are neither too few processes nor too many.
Event Job::draw() {
  for (;;) {
    std::uint64_t at = random_.below(100);
    const EventShare* share = kEventShares;
    for (; at >= share->percent; ++share) at -= share->percent;
    const std::size_t living = alive_.size();
    switch (share->event) {
      case Event::join:
        if (living + 2 <= kMost) return share->event;
        break;
      case Event::join_and_kill:
      case Event::kill_returned:
      case Event::kill_newcomer:
        if (living >= 2 && living < kMost) return share->event;
        break;
      case Event::kill_two:
      case Event::stop:
        if (living >= 3) return share->event;
        break;
      case Event::cut:  // of a closed Unix socket the other end has ended: nothing lies between them
        if (living >= (role_.transport == "tcp" ? 2 : 3)) return share->event;
        break;
      default:
        if (living >= 2) return share->event;
    }
  }
}

void Job::refuse() {
  const bool is_twin = random_.chance(50);
  const std::string member = "slot " + std::to_string(alive_[random_.below(alive_.size())].slot);
  start(0, is_twin ? "this program" : "another program", is_twin ? member.c_str() : "stranger");
  const Process stranger = strangers_.back();
  int status = 0;
  if (!await([&] { return waitpid(stranger.pid, &status, WNOHANG) != 0; }))
    return fault(stranger, "a stranger is not refused");
  strangers_.pop_back();
  if (status != 0) fault(stranger, report(stranger).fault);
}

void Job::stop() {
  const std::size_t which = draw_victim();
  kill(alive_[which].pid, SIGSTOP);
  wait_for(limits_.heartbeat * (1 + random_.fraction()));
  if (random_.chance(30)) return kill_one(which);
  kill(alive_[which].pid, SIGCONT);
}

/// Returns when it was noticed: a process that is left out comes again, and is no twin that must be refused.
void Job::cut() {
  const auto regroupings = [&] {
    int count = 0;
    for (const Process& process : alive_) count += report(process).regroupings;
    return count;
  };
  const int before = regroupings();
  control_->cut = static_cast<std::uint32_t>(random_.next());
  kill(alive_[random_.below(alive_.size())].pid, SIGUSR1);
  for (const double until = now() + kNoticed; regroupings() == before && now() < until;)
    std::this_thread::sleep_for(std::chrono::microseconds(200));
}

void Job::apply(Event event) {
  const auto moment = [&](double most) { wait_for(most * random_.fraction()); };
  moment(0.01);
  switch (event) {
    case Event::kill:
      return kill_one(draw_victim());
    case Event::kill_first: {
      const auto first = std::ranges::find_if(
          alive_, [&](const Process& process) { return report(process).rank == 0 && !is_spared(process); });
      return kill_one(first == alive_.end() ? draw_victim()
                                            : static_cast<std::size_t>(first - alive_.begin()));
    }
    case Event::kill_two:
      kill_one(draw_victim());
      moment(random_.chance(50) ? 0.003 : 0.03);
      return kill_one(draw_victim());
    case Event::kill_returned: {
      const std::size_t which = draw_victim();
      control_->prey = alive_[which].pid;
      start();
      await([&] { return control_->prey == 0; });
      control_->prey = 0;
      return kill_one(which);
    }
    case Event::join:
      for (auto newcomers = 1 + random_.below(2); newcomers > 0; --newcomers) start();
      return;
    case Event::join_and_kill: {
      const std::size_t which = draw_victim();
      start();
      moment(0.08);
      return kill_one(which);
    }
    case Event::kill_newcomer:
      start();
      moment(0.08);
      return kill_one(alive_.size() - 1);
    case Event::refuse:
      return refuse();
    case Event::pause: {
      const Process& victim = alive_[random_.below(alive_.size())];
      kill(victim.pid, SIGSTOP);
      moment(limits_.heartbeat / 3);
      kill(victim.pid, SIGCONT);
      return;
    }
    case Event::stop:
      return stop();
    case Event::cut:
      return cut();
  }
}

/// `sums`: how many each had before.
bool Job::are_together(const std::vector<std::uint64_t>& sums) const {
  std::int64_t numbers[kSlots] = {};
  for (const Process& process : alive_) numbers[process.slot] = process.number;
  const std::uint64_t group = identity_of(numbers);
  for (std::size_t i = 0; i < alive_.size(); ++i) {
    const MemberReport& said = report(alive_[i]);
    if (said.group != group || said.sums < sums[i] + kSumsTogether) return false;
  }
  return true;
}

/// All that live are soon in one group, and nobody has failed.
void Job::settle(Event event) {
  const double began = now();
  std::vector<std::uint64_t> sums;
  for (const Process& process : alive_) sums.push_back(report(process).sums);
  bool has_failed = false;
  const bool are_well = await([&] {
    has_failed =
        std::ranges::any_of(alive_, [&](const Process& one) { return report(one).fault[0] != '\0'; });
    return has_failed || are_together(sums);
  });
  outcome_.times[static_cast<std::size_t>(event)].push_back(now() - began);
  for (const Process& process : alive_) {
    const MemberReport& said = report(process);
    if (said.fault[0] != '\0') {
      fault(process, said.fault);
    } else if (!are_well) {
      fault(process,
            "rank " + std::to_string(said.rank) + " of another group after " +
                std::to_string(said.sums - sums[static_cast<std::size_t>(&process - alive_.data())]) +
                " sums");
    }
  }
}

/// Of the process that lives from the beginning to the end.
void Job::watch_growth(bool is_end) {
  for (const Process& process : alive_) {
    if (!is_spared(process)) continue;
    const int descriptors = report(process).descriptors;
    const long resident_kb = report(process).resident_kb;
    if (is_end && descriptors > descriptors_ + kMoreDescriptors)
      fault(process, std::to_string(descriptors_) + " descriptors became " + std::to_string(descriptors));
    if (is_end && resident_kb > resident_kb_ + kMoreKilobytes)
      fault(process, std::to_string(resident_kb_) + " KiB became " + std::to_string(resident_kb));
    descriptors_ = descriptors;
    resident_kb_ = resident_kb;
  }
}

void Job::end() {
  control_->is_over = true;
  for (const Process& process : alive_) {
    int status = 0;
    if (!await([&] { return waitpid(process.pid, &status, WNOHANG) != 0; })) {
      fault(process, "it does not end");
      return;
    }
    if (status != 0) fault(process, report(process).fault);
    count(process);
  }
  alive_.clear();
}

void Job::add_log() {
  std::deque<std::string> lines;
  std::ifstream log(folder_ + "/log");
  for (std::string line; std::getline(log, line);) {
    if (line.find(": listens at") == line.npos) lines.push_back(line);
    if (lines.size() > kLogLines) lines.pop_front();
  }
  outcome_.faults.insert(outcome_.faults.end(), lines.begin(), lines.end());
}

JobOutcome Job::run(std::uint64_t events) {
  settle(Event::join);
  for (; outcome_.events < events && outcome_.faults.empty(); ++outcome_.events) {
    const Event event = draw();
    apply(event);
    if (outcome_.faults.empty()) settle(event);
    if (!outcome_.faults.empty())
      outcome_.faults.push_back(std::string("in event ") + std::to_string(outcome_.events) + ", " +
                                name_of(event) + ", " + role_.transport +
                                (role_.file.empty() ? ", the store on TCP" : ", the store in a file"));
    if (outcome_.events == events / 5) watch_growth(false);
  }
  if (outcome_.faults.empty()) watch_growth(true);
  if (outcome_.faults.empty()) end();
  if (!outcome_.faults.empty()) add_log();
  return outcome_;
}

}  // namespace

const char* name_of(Event event) {
  constexpr const char* kNames[kEvents] = {
      "kill",          "kill-first", "kill-two", "kill-returned", "join", "join-and-kill",
      "kill-newcomer", "refuse",     "pause",    "stop",          "cut"};
  return kNames[static_cast<int>(event)];
}

JobOutcome run_job(std::uint64_t seed, std::uint64_t events, const JobLimits& limits) {
  return Job(seed, limits).run(events);
}

}  // namespace kolo::stress
