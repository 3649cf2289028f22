#include "schedule/message_graph.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <string>
#include <tuple>

#include "schedule/refusal.hpp"

namespace kolo::schedule {
namespace {

constexpr std::size_t kNone = std::numeric_limits<std::size_t>::max();

/// One side of a message. In sorted order, the k-th send and the k-th receive between two ranks have the same
/// index.
struct Side {
  std::int32_t from;
  std::int32_t to;
  StepRef step;

  auto link() const { return std::tie(from, to); }
};

/// Numbers the steps of all ranks and finds what each step waits for.
class Ordering {
 public:
  explicit Ordering(std::span<const Schedule> schedules) : schedules_(schedules) {
    for (const Schedule& schedule : schedules) {
      first_.push_back(total_);
      total_ += schedule.steps.size();
    }
    partner_.assign(total_, kNone);
    rank_of_.reserve(total_);
    for (std::uint32_t r = 0; r < schedules.size(); ++r) {
      rank_of_.insert(rank_of_.end(), schedules[r].steps.size(), r);
    }
  }

  Status match() {
    std::vector<Side> sends;
    std::vector<Side> receives;
    for (std::uint32_t r = 0; r < schedules_.size(); ++r) {
      const auto rank = static_cast<std::int32_t>(r);
      for (std::uint32_t s = 0; s < schedules_[r].steps.size(); ++s) {
        const Step& step = schedules_[r].steps[s];
        if (step.kind == StepKind::send) sends.push_back({rank, step.peer, {r, s}});
        if (step.kind == StepKind::recv || step.kind == StepKind::recv_reduce) {
          receives.push_back({step.peer, rank, {r, s}});
        }
      }
    }
    const auto by_link = [](const Side& a, const Side& b) { return a.link() < b.link(); };
    std::stable_sort(sends.begin(), sends.end(), by_link);
    std::stable_sort(receives.begin(), receives.end(), by_link);
    for (std::size_t i = 0; i < std::max(sends.size(), receives.size()); ++i) {
      const bool no_receive =
          i >= receives.size() || (i < sends.size() && sends[i].link() < receives[i].link());
      if (no_receive) return lonely(sends[i], "no receive of its peer meets this send");
      const bool no_send = i >= sends.size() || receives[i].link() < sends[i].link();
      if (no_send) return lonely(receives[i], "no send of its peer meets this receive");
      partner_[index(sends[i].step)] = index(receives[i].step);
      partner_[index(receives[i].step)] = index(sends[i].step);
    }
    messages_ = sends.size();
    return {};
  }

  /// The event of a step: the step's index; for a message, the index of its send.
  std::size_t event_of(std::size_t index) const {
    return is_send(index) || partner_[index] == kNone ? index : partner_[index];
  }
  bool is_send(std::size_t index) const { return step(index).kind == StepKind::send; }
  std::size_t partner(std::size_t index) const { return partner_[index]; }
  std::size_t total() const { return total_; }
  std::uint64_t messages() const { return messages_; }
  StepRef ref(std::size_t index) const {
    return {rank_of_[index], static_cast<std::uint32_t>(index - first_[rank_of_[index]])};
  }

  /// Calls visit(event) for all events that `event` waits for.
  template <typename Visit>
  void for_each_wait(std::size_t event, Visit visit) const {
    for (const std::size_t side : {event, partner_[event]}) {
      if (side == kNone) continue;
      const Schedule& schedule = schedules_[rank_of_[side]];
      for (const std::uint32_t d : schedule.dependencies_of(step(side))) {
        visit(event_of(first_[rank_of_[side]] + d));
      }
    }
  }

  /// `stuck` waits for an event that never happens, as does every event that has not happened. Follows the
  /// waits until an event repeats.
  Status cycle(std::size_t stuck, const std::vector<std::size_t>& waits) const {
    std::vector<std::size_t> path;
    std::vector<bool> seen(total_, false);
    while (!seen[stuck]) {
      seen[stuck] = true;
      path.push_back(stuck);
      std::size_t next = kNone;
      for_each_wait(stuck, [&](std::size_t on) {
        if (waits[on] > 0) next = on;
      });
      stuck = next;
    }
    std::string text = "waits for itself: ";
    const auto begin = std::find(path.begin(), path.end(), stuck);
    for (auto event = begin; event != path.end(); ++event) text += describe(*event) + " waits for ";
    const StepRef at = ref(stuck);
    return refuse(schedules_[at.rank], at.step, text + describe(stuck));
  }

 private:
  std::size_t index(const StepRef& ref) const { return first_[ref.rank] + ref.step; }
  const Step& step(std::size_t index) const {
    const StepRef at = ref(index);
    return schedules_[at.rank].steps[at.step];
  }
  Status lonely(const Side& side, const char* why) const {
    return refuse(schedules_[side.step.rank], side.step.step, why);
  }
  std::string describe(std::size_t event) const {
    const StepRef one = ref(event);
    if (partner_[event] == kNone) return fmt::format("rank {} step {}", one.rank, one.step);
    const StepRef other = ref(partner_[event]);
    return fmt::format("the message of rank {} step {} to rank {} step {}", one.rank, one.step, other.rank,
                       other.step);
  }

  std::span<const Schedule> schedules_;
  std::vector<std::size_t> first_;  // of each rank, the number of its step 0
  std::size_t total_ = 0;
  std::vector<std::uint32_t> rank_of_;
  std::vector<std::size_t> partner_;
  std::uint64_t messages_ = 0;
};

}  // namespace

Result<MessageGraph> MessageGraph::build(std::span<const Schedule> schedules) {
  Ordering ordering(schedules);
  if (Status status = ordering.match(); !status.ok()) return status;

  // Kahn's topological order: an event happens once no event that it waits for is left.
  std::vector<std::size_t> waits(ordering.total(), 0);
  std::vector<std::vector<std::size_t>> followers(ordering.total());
  std::vector<std::size_t> ready;
  std::size_t events = 0;
  for (std::size_t i = 0; i < ordering.total(); ++i) {
    if (ordering.event_of(i) != i) continue;
    ++events;
    ordering.for_each_wait(i, [&](std::size_t on) {
      ++waits[i];
      followers[on].push_back(i);
    });
    if (waits[i] == 0) ready.push_back(i);
  }

  MessageGraph graph;
  graph.messages_ = ordering.messages();
  graph.events_.reserve(events);
  std::vector<std::uint64_t> depth(ordering.total(), 0);  // messages in the longest chain before each event
  std::vector<std::uint32_t> place(ordering.total(), 0);  // in events_
  for (std::size_t next = 0; next < ready.size(); ++next) {
    const std::size_t event = ready[next];
    const bool is_message = ordering.is_send(event);
    place[event] = static_cast<std::uint32_t>(next);
    ordering.for_each_wait(event, [&](std::size_t on) { graph.waits_.push_back(place[on]); });
    graph.first_wait_.push_back(graph.waits_.size());
    const StepRef receiver = is_message ? ordering.ref(ordering.partner(event)) : StepRef{};
    graph.events_.push_back({ordering.ref(event), receiver, is_message});
    const std::uint64_t through = depth[event] + (is_message ? 1 : 0);
    graph.rounds_ = std::max(graph.rounds_, through);
    for (const std::size_t follower : followers[event]) {
      depth[follower] = std::max(depth[follower], through);
      if (--waits[follower] == 0) ready.push_back(follower);
    }
  }
  if (ready.size() == events) return graph;
  const auto stuck = std::find_if(waits.begin(), waits.end(), [](std::size_t left) { return left > 0; });
  return ordering.cycle(static_cast<std::size_t>(stuck - waits.begin()), waits);
}

}  // namespace kolo::schedule
