#include "stress/rank.hpp"

#include <sys/prctl.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <optional>
#include <thread>

#include "stress/belongings.hpp"
#include "stress/calls.hpp"

namespace kolo::stress {
namespace {

constexpr int kStepsBetweenAgreements = 4;

void write_down(char (&text)[Report::kText], const char* what) {
  std::snprintf(text, sizeof text, "%s", what);
}

Ending ending_of(const Error& error) {
  if (dynamic_cast<const PeerLostError*>(&error) != nullptr) return Ending::peer_lost;
  if (dynamic_cast<const TimeoutError*>(&error) != nullptr) return Ending::timeout;
  if (dynamic_cast<const RendezvousError*>(&error) != nullptr) return Ending::rendezvous;
  return Ending::other;
}

void call_until_asked(Calls& calls, const Plan& plan, const Limits& limits, Control& control,
                      Report& report) {
  Steps steps(plan, limits);
  for (int i = 1;; ++i) {
    if (i % kStepsBetweenAgreements == 0) {
      if (calls.agree(control.finish.load() != 0)) return;
    } else {
      calls.run(steps.next());
    }
    ++report.steps;
  }
}

void take_part(int rank, const Plan& plan, const Limits& limits, const std::string& store, Control& control) {
  Report& report = control.ranks[rank];
  Random random(plan.seed ^ (0x72616e6b + static_cast<std::uint64_t>(rank)));
  Memory memory(random.next(), plan.private_memory);
  std::optional<Calls> calls;
  try {
    calls.emplace(Communicator::create(make_file_store(store), rank, plan.ranks,
                                       {.timeout = limits.timeout, .transports = plan.transport}),
                  memory);
    report.phase.store(Phase::calling);
    call_until_asked(*calls, plan, limits, control, report);
  } catch (const Error& error) {
    report.at = now();
    report.ending = ending_of(error);
    report.blamed = calls ? calls->blamed(error.context()) : error.context().peer;
    write_down(report.error, error.what());
    if (calls && !calls->all_fail()) throw Wrong("a call succeeded after the failure");
  }
  memory.paint();
  if (calls && plan.shrinks) {
    calls->go_on(plan.survivors());
    report.went_on_at = now();
  }
  // The errors of other ranks must not depend on when this rank's communicators are destroyed.
  if (random.chance(50)) calls.reset();
  report.phase.store(Phase::waiting);
  while (control.look.load() == 0) std::this_thread::sleep_for(std::chrono::microseconds(200));
  if (!memory.is_as_painted()) throw Wrong("somebody wrote in memory of a call that had ended");
}

}  // namespace

void be_rank(int rank, const Plan& plan, const Limits& limits, const std::string& store, Control& control) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  setpgid(0, 0);  // the kernel sends SIGCONT to an orphaned process group with a stopped member
  Report& report = control.ranks[rank];
  try {
    const Belongings before = Belongings::look();
    take_part(rank, plan, limits, store, control);
    const Belongings after = Belongings::look();
    if (!(before == after)) throw Wrong("it began with " + before.text() + " and ended with " + after.text());
  } catch (const std::exception& error) {
    report.at = now();
    write_down(report.fault, error.what());
  }
  report.phase.store(Phase::ended);
  _exit(0);
}

}  // namespace kolo::stress
