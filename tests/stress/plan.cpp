#include "stress/plan.hpp"

#include <algorithm>
#include <csignal>

namespace kolo::stress {
namespace {

using std::chrono::microseconds;

constexpr std::uint64_t kElementBytes = 4;

struct Share {
  Fault fault;
  unsigned percent;
};
constexpr Share kShares[] = {{Fault::kill, 38},        {Fault::kill_two, 12}, {Fault::kill_meeting, 8},
                             {Fault::pause, 8},        {Fault::stop, 18},     {Fault::stop_and_kill, 8},
                             {Fault::kill_stopped, 4}, {Fault::none, 4}};

Fault draw_fault(Random& random) {
  std::uint64_t at = random.below(100);
  for (const Share& share : kShares) {
    if (at < share.percent) return share.fault;
    at -= share.percent;
  }
  return Fault::none;
}

microseconds up_to(Random& random, microseconds most) {
  return microseconds(random.below(static_cast<std::uint64_t>(most.count()) + 1));
}

}  // namespace

const char* name_of(Fault fault) {
  constexpr const char* kNames[kFaults] = {"none",  "kill", "kill-two",      "kill-meeting",
                                           "pause", "stop", "stop-and-kill", "kill-stopped"};
  return kNames[static_cast<int>(fault)];
}

Plan Plan::make(std::uint64_t seed, int ranks, const Limits& limits) {
  Random random(seed);
  Plan plan;
  plan.seed = seed;
  plan.ranks = ranks;
  plan.transport = limits.transports[random.below(limits.transports.size())];
  plan.fault = limits.faults.empty() ? draw_fault(random) : limits.faults[random.below(limits.faults.size())];
  if (ranks < 3 && (plan.fault == Fault::kill_two || plan.fault == Fault::stop_and_kill))
    plan.fault = Fault::kill;
  const auto victim = static_cast<int>(random.below(static_cast<std::uint64_t>(ranks)));
  const int other =
      (victim + 1 + static_cast<int>(random.below(static_cast<std::uint64_t>(std::max(ranks - 1, 1))))) %
      ranks;
  // The first milliseconds of the calls, and sometimes later, when everything has been used.
  const auto first = up_to(random, microseconds(random.chance(80) ? 15'000 : 60'000));
  switch (plan.fault) {
    case Fault::none:
      break;
    case Fault::kill:
      plan.hits = {{victim, SIGKILL, first}};
      break;
    case Fault::kill_two:
      // While the survivors notice the first kill, or go on without that rank.
      plan.hits = {{victim, SIGKILL, first},
                   {other, SIGKILL, up_to(random, microseconds(random.chance(50) ? 3000 : 30'000))}};
      break;
    case Fault::kill_meeting:
      plan.hits = {{victim, SIGKILL, up_to(random, microseconds(20'000))}};
      break;
    case Fault::pause:
      plan.hits = {{victim, SIGSTOP, first}};
      plan.pause = up_to(random, std::chrono::duration_cast<microseconds>(limits.timeout / 3));
      break;
    case Fault::stop:
      plan.hits = {{victim, SIGSTOP, first}};
      break;
    case Fault::stop_and_kill:
      plan.hits = {{victim, SIGSTOP, first}, {other, SIGKILL, up_to(random, microseconds(3000))}};
      break;
    case Fault::kill_stopped:
      plan.hits = {{victim, SIGSTOP, first}, {victim, SIGKILL, up_to(random, microseconds(100'000))}};
      break;
  }
  plan.private_memory = random.chance(50);
  plan.goes_on = random.chance(75);
  plan.shrinks = (plan.fault == Fault::kill || plan.fault == Fault::kill_two) && random.chance(50);
  return plan;
}

bool Plan::is_hit(int rank) const {
  return std::any_of(hits.begin(), hits.end(), [&](const Hit& hit) { return hit.rank == rank; });
}

bool Plan::is_killed(int rank) const {
  return std::any_of(hits.begin(), hits.end(),
                     [&](const Hit& hit) { return hit.rank == rank && hit.signal == SIGKILL; });
}

int Plan::survivors() const {
  int count = 0;
  for (int rank = 0; rank < ranks; ++rank) count += is_killed(rank) ? 0 : 1;
  return count;
}

Steps::Steps(const Plan& plan, const Limits& limits)
    : random_(plan.seed ^ 0x7374657073),
      most_elements_(std::max<std::uint64_t>(limits.most_bytes / kElementBytes, 1)) {
  repeats_ = random_.chance(40);
  repeated_ = draw();
}

Step Steps::next() {
  return repeats_ && !random_.chance(10) ? repeated_ : draw();
}

Step Steps::draw() {
  Step step;
  step.group = random_.chance(60) ? Group::world : random_.chance(50) ? Group::half : Group::mirrored;
  const std::uint64_t kind = random_.below(100);
  step.kind = kind < 55   ? Kind::all_reduce
              : kind < 67 ? Kind::broadcast
              : kind < 79 ? Kind::all_gather
              : kind < 91 ? Kind::reduce_scatter
                          : Kind::barrier;
  const bool has_parts = step.kind == Kind::all_gather || step.kind == Kind::reduce_scatter;
  step.count = random_.size(has_parts ? std::max<std::uint64_t>(most_elements_ / 4, 1) : most_elements_);
  step.root = random_.next() >> 8;
  step.asynchronous = random_.chance(30);
  if (random_.chance(25)) {
    step.asynchronous = true;
    step.calls = 2 + static_cast<int>(random_.below(100));
    step.count = random_.size(2048);
  }
  step.in_place = random_.chance(60);
  const bool is_broadcast = step.kind == Kind::broadcast;
  if (step.kind != Kind::barrier && random_.chance(20)) step.algorithm = is_broadcast ? "binomial" : "ring";
  return step;
}

}  // namespace kolo::stress
