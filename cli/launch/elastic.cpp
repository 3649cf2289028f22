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

void Job::serve_roster() {
  roster_->look();
  std::erase_if(children_, [](const auto& child) {
    return child->is_over() && dynamic_cast<RankChild*>(child.get()) != nullptr;
  });
  if (is_over()) return;
  for (const int number : roster_->due()) start_rank(number, true);
  if (roster_->only_newcomers_wait() && running() > 0) stop_ranks(SIGTERM);
}

}  // namespace kolo::cli
