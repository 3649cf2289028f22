#include "launch/roster.hpp"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <ctime>

#include "rendezvous/meeting.hpp"

namespace kolo::cli {
namespace {

constexpr std::chrono::milliseconds kFirstPause{500};
constexpr std::chrono::seconds kLongestPause{30};
constexpr std::chrono::milliseconds kLookAgain{200};

}  // namespace

std::optional<std::chrono::nanoseconds> Restarts::next(Clock::time_point now, int limit) {
  cancel();
  std::erase_if(times_, [&](Clock::time_point time) { return time + kWindow < now; });
  if (count() >= limit) return std::nullopt;
  std::chrono::nanoseconds pause = kFirstPause;
  for (int i = 0; i < count() && pause < kLongestPause; ++i) pause *= 2;
  times_.push_back(now);
  pause = std::min<std::chrono::nanoseconds>(pause, kLongestPause);
  again_ = Deadline::after(pause);
  return pause;
}

void Roster::say(const std::string& text) const {
  say_(fmt::format("{:%H:%M:%S} {}", fmt::localtime(std::time(nullptr)), text));
}

void Roster::start(int number, bool is_newcomer) {
  Process& process = processes_[number];
  process.is_newcomer = is_newcomer;
  process.is_running = true;
  process.is_in = false;
  process.restarts.cancel();
  if (is_newcomer) say(fmt::format("process {} starts as a newcomer", number));
}

void Roster::let_go(int number) {
  const auto at = processes_.find(number);
  if (at == processes_.end()) return;
  at->second.is_let_go = true;
  at->second.restarts.cancel();
}

void Roster::look() {
  if (!look_at_.passed()) return;
  look_at_ = Deadline::after(kLookAgain);
  for (auto& [number, process] : processes_) {
    if (!process.is_running || process.is_in) continue;
    process.is_in = store_->wait({rendezvous::attendance_key(number)}, {}).empty();
    has_met_ = has_met_ || process.is_in;
    if (process.is_in && process.is_newcomer) say(fmt::format("process {} has come into the group", number));
  }
}

void Roster::take_end(const RankExit& exit) {
  look_at_ = Deadline::after({});
  look();  // it may have come in since
  for (int number = exit.rank; number < exit.rank + std::max(1, exit.lost_ranks); ++number) {
    const auto at = processes_.find(number);
    if (at == processes_.end()) continue;
    Process& process = at->second;
    process.is_running = false;
    if (process.is_in) store_->remove(rendezvous::attendance_key(number));
    if (exit.lost_ranks > 0) process.restarts.cancel();
    if (number != exit.rank) continue;
    const std::string follows = what_follows(process, exit);
    if (has_met_ && (exit.failed() || process.is_let_go)) say(exit.what + follows);
  }
}

/// What to say of that, behind how the process has ended.
std::string Roster::what_follows(Process& process, const RankExit& exit) {
  if (process.is_let_go) return ", as it was told to";
  if (!exit.failed()) {
    is_done_ = true;
    return "";
  }
  const int left = members();
  std::string text = fmt::format("; {} go{} on", left, left == 1 ? "es" : "");
  if (is_done_ || exit.lost_ranks > 0 || !has_met_) return text;
  const auto pause = process.restarts.next(Clock::now(), options_.restarts);
  if (!pause)
    return text + fmt::format("; it is not started again, after {} restarts in {} minutes", options_.restarts,
                              Restarts::kWindow.count());
  return text + fmt::format("; it starts again in {:.3g} s (restart {} of {})", to_seconds(*pause),
                            process.restarts.count(), options_.restarts);
}

std::vector<int> Roster::due() {
  std::vector<int> numbers;
  for (const auto& [number, process] : processes_) {
    if (!is_done_ && process.restarts.is_due()) numbers.push_back(number);
  }
  return numbers;
}

std::optional<Deadline> Roster::next() const {
  std::optional<Deadline> first;
  for (const auto& [number, process] : processes_) {
    const std::optional<Deadline>& again = process.restarts.again();
    if (again && (!first || again->at() < first->at())) first = again;
    if (process.is_running && !process.is_in && (!first || look_at_.at() < first->at())) first = look_at_;
  }
  return first;
}

int Roster::members() const {
  return static_cast<int>(std::ranges::count_if(processes_, [](const auto& entry) {
    return entry.second.is_running && (entry.second.is_in || !entry.second.is_newcomer);
  }));
}

int Roster::present() const {
  return static_cast<int>(std::ranges::count_if(processes_, [](const auto& entry) {
    return !entry.second.is_let_go && (entry.second.is_running || entry.second.restarts.again());
  }));
}

bool Roster::only_newcomers_wait() const {
  return is_done_ && members() == 0;
}

std::string Roster::why_over() const {
  if (is_done_ || !has_met_) return {};
  if (members() == 0) return "no process of the group is left, so newcomers find none";
  if (present() < options_.least)
    return fmt::format("{} of the at least {} processes that --elastic asks for {} left", present(),
                       options_.least, present() == 1 ? "is" : "are");
  return {};
}

}  // namespace kolo::cli
