// What a launcher does for an elastic job: starts processes again, and ends a job that cannot go on.
#include <fmt/format.h>
#include <signal.h>

#include <algorithm>

#include "launch/job.hpp"

namespace kolo::cli {

/// Ends the job if it cannot go on.
void Job::judge_roster() {
  const std::string why = roster_->why_over();
  if (why.empty()) return;
  outcome_.failed_rank = last_failure_.rank;
  outcome_.exit_code = last_failure_.exit_code;
  outcome_.signal = last_failure_.signal;
  const int others = running();
  console_.say(why + (others > 0 ? fmt::format("; stopping the other {}", others) : ""));
  stop_at_ = Deadline::after(kReportTime);
}

void Job::start_again(int number) {
  if (!is_remote()) return start_rank(number, true);
  for (HostChild* host : hosts_) {
    if (!host->has(number) || host->pid() < 0) continue;
    roster_->start(number, true);
    host->start_again(number);
  }
}

void Job::serve_roster() {
  roster_->look();
  std::erase_if(hosts_, [](HostChild* host) { return host->is_over(); });
  std::erase_if(children_, [](const auto& child) { return child->is_over(); });
  if (is_over()) return;
  for (const int number : roster_->due()) start_again(number);
  if (roster_->only_newcomers_wait() && running() > 0) return stop_ranks(SIGTERM);
  if (is_remote() && roster_->has_met() && !roster_->is_done()) serve_host_list();
}

void Job::hear_of_lost_host(const RankExit& exit) {
  const auto host = std::ranges::find_if(hosts_, [&](HostChild* one) { return one->has(exit.rank); });
  if (host == hosts_.end() || !roster_->has_met()) return;
  const auto pause = host_restarts_[(*host)->where().login].next(Clock::now(), options_.elastic.restarts);
  console_.say(pause ? fmt::format("{} is tried again in {:.3g} s, while it is listed", (*host)->name(),
                                   to_seconds(*pause))
                     : fmt::format("{} is not tried again", (*host)->name()));
}

/// Hosts that are not listed any more are left, and others get as many ranks as the job still takes.
void Job::serve_host_list() {
  if (auto listed = host_list_.look(console_, exits_, children_, signals_.before())) {
    listed_ = std::move(*listed);
    std::erase_if(host_restarts_, [&](const auto& entry) {
      return std::ranges::find(listed_, entry.first, &HostSlots::login) == listed_.end();
    });
  }
  for (HostChild* host : hosts_) {
    if (host->pid() < 0 || host->is_leaving()) continue;
    if (std::ranges::find(listed_, host->where().login, &HostSlots::login) != listed_.end()) continue;
    console_.say(fmt::format("{} is not listed any more: its processes are told to end", host->name()));
    for (int r = 0; r < host->ranks(); ++r) roster_->let_go(host->first_rank() + r);
    host->leave();
  }
  int room = options_.elastic.most - roster_->present();
  for (const HostSlots& where : listed_) {
    const auto lost = host_restarts_.find(where.login);
    const bool is_lost = lost != host_restarts_.end() && !lost->second.is_due();
    const bool is_here = std::ranges::any_of(
        hosts_, [&](HostChild* host) { return host->where().login == where.login && host->pid() > 0; });
    if (room <= 0 || is_here || is_lost) continue;
    start_host({where.login, std::min(where.slots, room)}, true);
    room -= where.slots;
  }
}

}  // namespace kolo::cli
