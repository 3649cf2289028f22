#include "stress/round.hpp"

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <stdexcept>
#include <thread>

#include "stress/control.hpp"
#include "stress/rank.hpp"

namespace kolo::stress {
namespace {

using std::chrono::duration;
using std::chrono::milliseconds;

/// Time after the last hit or continued rank within which a remaining write must happen.
constexpr auto kSettle = milliseconds(5);
/// Longest wait for a rank beyond its limit, in seconds.
constexpr double kPatience = 5;

double seconds(std::chrono::nanoseconds time) {
  return duration<double>(time).count();
}

bool mentions(const std::string& text, int rank) {
  const std::string name = "rank " + std::to_string(rank);
  for (std::size_t at = 0; (at = text.find(name, at)) != std::string::npos; at += name.size()) {
    if (at + name.size() == text.size() || std::isdigit(text[at + name.size()]) == 0) return true;
  }
  return false;
}

class Round {
 public:
  Round(const Plan& plan, const Limits& limits);
  ~Round();
  Round(const Round&) = delete;

  Outcome run(bool hold);

 private:
  Report& report(int rank) const { return control_->ranks[rank]; }
  Phase phase(int rank) const { return report(rank).phase.load(); }
  void fault(int rank, const std::string& what);
  bool survives(int rank) const { return plan_.all_survive() || !plan_.is_hit(rank); }
  bool await(const std::function<bool(int)>& counts, Phase phase, double until);
  bool meet();
  void hit();
  void judge(int rank);
  void release_stopped();
  void collect();

  const Plan& plan_;
  const Limits& limits_;
  std::string folder_;
  Control* control_;
  std::vector<pid_t> processes_;
  Outcome outcome_;
  double hit_at_ = 0;    ///< time of the hit that the survivors notice first
  double limit_at_ = 0;  ///< time by which they must notice it
  double last_hit_at_ = 0;
};

Round::Round(const Plan& plan, const Limits& limits) : plan_(plan), limits_(limits) {
  std::string name = (std::filesystem::temp_directory_path() / (folder_prefix() + "XXXXXX")).string();
  if (mkdtemp(name.data()) == nullptr) throw std::runtime_error("mkdtemp");
  folder_ = name;
  void* page = mmap(nullptr, sizeof(Control), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED) throw std::runtime_error("mmap");
  control_ = new (page) Control{};
  for (int rank = 0; rank < plan.ranks; ++rank) {
    const pid_t child = fork();
    if (child == 0) be_rank(rank, plan, limits, folder_ + "/store", *control_);
    if (child < 0) throw std::runtime_error("fork");
    processes_.push_back(child);
  }
}

Round::~Round() {
  for (const pid_t process : processes_) {
    if (process <= 0) continue;  // collected
    kill(process, SIGKILL);
    waitpid(process, nullptr, 0);
  }
  munmap(control_, sizeof(Control));
  std::error_code ignored;
  std::filesystem::remove_all(folder_, ignored);
}

void Round::fault(int rank, const std::string& what) {
  outcome_.faults.push_back("rank " + std::to_string(rank) + ": " + what);
}

/// Waits until all ranks selected by `counts` have reached the phase; records a fault for each rank that has
/// not.
bool Round::await(const std::function<bool(int)>& counts, Phase wanted, double until) {
  for (;;) {
    bool all = true;
    for (int rank = 0; rank < plan_.ranks; ++rank) all = all && (!counts(rank) || phase(rank) >= wanted);
    if (all) return true;
    if (now() > until) break;
    std::this_thread::sleep_for(std::chrono::microseconds(200));
  }
  for (int rank = 0; rank < plan_.ranks; ++rank) {
    if (counts(rank) && phase(rank) < wanted)
      fault(rank, "still in phase " + std::to_string(static_cast<int>(phase(rank))) + " after " +
                      std::to_string(report(rank).steps.load()) + " steps");
  }
  return false;
}

/// Seconds that the ranks get to connect, also if the timeout is shorter.
constexpr double kConnecting = 5;

/// Whether all ranks have connected and none has timed out.
bool Round::meet() {
  const bool all =
      await([](int) { return true; }, Phase::calling, now() + seconds(limits_.timeout) + kPatience);
  outcome_.faults.clear();
  bool met = all;
  for (int rank = 0; rank < plan_.ranks; ++rank) met = met && phase(rank) == Phase::calling;
  return met;
}

void Round::hit() {
  for (const Hit& hit : plan_.hits) {
    std::this_thread::sleep_for(hit.after);
    kill(processes_[static_cast<std::size_t>(hit.rank)], hit.signal);
    double deadline = hit.signal == SIGSTOP ? seconds(limits_.timeout) : 0;
    if (plan_.fault == Fault::kill_meeting) deadline = std::max(seconds(limits_.timeout), kConnecting);
    if (limit_at_ == 0 || now() + deadline < hit_at_) hit_at_ = now() + deadline;
    limit_at_ = hit_at_ + seconds(limits_.grace);
    last_hit_at_ = now();
  }
  if (plan_.fault == Fault::pause) {
    std::this_thread::sleep_for(plan_.pause);
    kill(processes_[static_cast<std::size_t>(plan_.hits.front().rank)], SIGCONT);
  }
}

void Round::judge(int rank) {
  const Report& said = report(rank);
  const std::string error = said.error;
  if (said.fault[0] != '\0') return;  // reported in collect()
  if (plan_.all_survive()) {
    if (said.ending != Ending::finished) fault(rank, "an error, though everybody is alive: " + error);
    return;
  }
  if (said.ending == Ending::finished) return fault(rank, "no error");
  outcome_.notice_times.push_back(std::max(0.0, said.at - hit_at_));
  if (said.at > limit_at_) fault(rank, std::to_string(said.at - limit_at_) + " s too late: " + error);
  if (plan_.shrinks) {
    const double took = said.went_on_at - std::max(last_hit_at_, said.at);
    outcome_.shrink_times.push_back(std::max(0.0, took));
    if (took > seconds(limits_.grace)) fault(rank, "went on " + std::to_string(took) + " s after its error");
  }
  const bool may_meet = plan_.fault == Fault::kill_meeting;
  const bool fits = said.ending == Ending::peer_lost || said.ending == Ending::timeout ||
                    (may_meet && said.ending == Ending::rendezvous);
  if (!fits) fault(rank, "another kind of error: " + error);
  // A rank in create() may see other ranks leave because of the killed one.
  const bool in_words = said.blamed < 0 || said.ending == Ending::rendezvous;
  const bool names = std::any_of(plan_.hits.begin(), plan_.hits.end(), [&](const Hit& hit) {
    return said.blamed == hit.rank || (in_words && mentions(error, hit.rank));
  });
  // A rank that has connected may see a rank leave that could not connect.
  const bool has_left = said.blamed >= 0 && report(said.blamed).ending == Ending::rendezvous;
  if (!names && !has_left) fault(rank, "blames rank " + std::to_string(said.blamed) + ": " + error);
}

/// Ranks that were stopped to the end continue, and learn that the other ranks have given up.
void Round::release_stopped() {
  const auto goes_on = [&](int rank) {
    return plan_.is_hit(rank) && !plan_.is_killed(rank) && plan_.goes_on && !plan_.all_survive();
  };
  for (int rank = 0; rank < plan_.ranks; ++rank) {
    if (!plan_.is_hit(rank) || plan_.is_killed(rank) || plan_.all_survive()) continue;
    kill(processes_[static_cast<std::size_t>(rank)], plan_.goes_on ? SIGCONT : SIGKILL);
  }
  await(goes_on, Phase::waiting, now() + seconds(limits_.timeout + limits_.grace));
  for (int rank = 0; rank < plan_.ranks; ++rank) {
    if (goes_on(rank) && phase(rank) >= Phase::waiting && report(rank).ending == Ending::finished)
      fault(rank, "no error, though the others have given it up");
  }
}

void Round::collect() {
  const auto stays = [&](int rank) { return survives(rank) || (!plan_.is_killed(rank) && plan_.goes_on); };
  control_->look.store(1);
  await(stays, Phase::ended, now() + kPatience);
  for (int rank = 0; rank < plan_.ranks; ++rank) {
    outcome_.steps += report(rank).steps.load();
    if (phase(rank) == Phase::ended && report(rank).fault[0] != '\0') fault(rank, report(rank).fault);
  }
  const double until = now() + kPatience;
  for (int rank = 0; rank < plan_.ranks; ++rank) {
    pid_t& process = processes_[static_cast<std::size_t>(rank)];
    if (!outcome_.faults.empty()) continue;  // the destructor ends it
    int status = 0;
    while (waitpid(process, &status, WNOHANG) == 0) {
      if (now() > until) return fault(rank, "its process does not end");
      std::this_thread::sleep_for(std::chrono::microseconds(100));
    }
    process = 0;
    if (stays(rank) && !(WIFEXITED(status) && WEXITSTATUS(status) == 0))
      fault(rank, "its process ended with status " + std::to_string(status));
  }
}

Outcome Round::run(bool hold) {
  const auto survivors = [this](int rank) { return survives(rank); };
  if (plan_.fault != Fault::kill_meeting && !meet()) {
    outcome_.met = false;
  } else {
    hit();
    if (plan_.all_survive()) {
      std::this_thread::sleep_for(milliseconds(10));
      control_->finish.store(1);
      limit_at_ = now() + seconds(limits_.timeout);
    }
    const double to_go_on = plan_.shrinks ? seconds(limits_.grace) : 0;
    if (await(survivors, Phase::waiting, limit_at_ + to_go_on + kPatience)) {
      for (int rank = 0; rank < plan_.ranks; ++rank) {
        if (survives(rank)) judge(rank);
      }
      release_stopped();
      std::this_thread::sleep_for(kSettle);
      collect();
    }
  }
  if (hold && !outcome_.faults.empty()) {
    std::fprintf(stderr, "held:");
    for (const pid_t process : processes_) std::fprintf(stderr, " %d", static_cast<int>(process));
    for (const std::string& what : outcome_.faults) std::fprintf(stderr, "\n  %s", what.c_str());
    std::fprintf(stderr, "\n");
    for (;;) pause();
  }
  return outcome_;
}

}  // namespace

std::string folder_prefix() {
  return "kolo-stress-" + std::to_string(getpid()) + "-";
}

Outcome run_round(const Plan& plan, const Limits& limits, bool hold) {
  return Round(plan, limits).run(hold);
}

}  // namespace kolo::stress
