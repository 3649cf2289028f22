#include "schedule/timetable.hpp"

#include <algorithm>
#include <limits>

namespace kolo::schedule {
namespace {

/// For each event, the messages in the longest chain from it to the end, itself included.
std::vector<std::uint32_t> chains_behind(const MessageGraph& graph) {
  std::vector<std::uint32_t> behind(graph.events().size(), 0);
  for (std::size_t event = behind.size(); event-- > 0;) {
    behind[event] += graph.events()[event].is_message ? 1 : 0;
    for (const std::uint32_t before : graph.waits_of(event)) {
      behind[before] = std::max(behind[before], behind[event]);
    }
  }
  return behind;
}

/// The position of a message in the schedules of its two sides: the later one.
std::uint32_t later_side(const MessageGraph::Event& message) {
  return std::max(message.step.step, message.receiver.step);
}

}  // namespace

Timetable::Timetable(std::span<const Schedule> schedules, const MessageGraph& graph)
    : step_of_(graph.events().size(), 0) {
  const std::size_t count = step_of_.size();
  const std::vector<std::uint32_t> behind = chains_behind(graph);
  std::vector<std::uint32_t> left(count, 0);  // waits that are not over
  std::vector<std::size_t> first_follower(count + 1, 0);
  for (std::size_t event = 0; event < count; ++event) {
    left[event] = static_cast<std::uint32_t>(graph.waits_of(event).size());
    for (const std::uint32_t before : graph.waits_of(event)) ++first_follower[before + 1];
  }
  for (std::size_t event = 0; event < count; ++event) first_follower[event + 1] += first_follower[event];
  std::vector<std::uint32_t> followers(first_follower.back());
  std::vector<std::size_t> filled(first_follower.begin(), first_follower.end() - 1);
  for (std::size_t event = 0; event < count; ++event) {
    for (const std::uint32_t before : graph.waits_of(event)) {
      followers[filled[before]++] = static_cast<std::uint32_t>(event);
    }
  }

  std::vector<std::uint32_t> waiting;  // messages whose waits are over
  std::vector<std::uint32_t> over;     // events that have happened; their followers are not updated yet
  const auto tell = [&](std::uint32_t step) {
    while (!over.empty()) {
      const std::uint32_t event = over.back();
      over.pop_back();
      step_of_[event] = step;
      for (std::size_t i = first_follower[event]; i < first_follower[event + 1]; ++i) {
        const std::uint32_t follower = followers[i];
        if (--left[follower] > 0) continue;
        (graph.events()[follower].is_message ? waiting : over).push_back(follower);
      }
    }
  };
  for (std::uint32_t event = 0; event < count; ++event) {
    if (left[event] == 0) (graph.events()[event].is_message ? waiting : over).push_back(event);
  }
  tell(0);
  constexpr std::uint32_t kNever = std::numeric_limits<std::uint32_t>::max();
  std::vector<std::uint32_t> sent_in(schedules.size(), kNever);
  std::vector<std::uint32_t> received_in(schedules.size(), kNever);
  while (!waiting.empty()) {
    ++steps_;
    std::sort(waiting.begin(), waiting.end(), [&](std::uint32_t a, std::uint32_t b) {
      if (behind[a] != behind[b]) return behind[a] > behind[b];
      const std::uint32_t place_a = later_side(graph.events()[a]);
      const std::uint32_t place_b = later_side(graph.events()[b]);
      return place_a != place_b ? place_a < place_b : a < b;
    });
    std::vector<std::uint32_t> kept;
    for (const std::uint32_t event : waiting) {
      const MessageGraph::Event& message = graph.events()[event];
      if (sent_in[message.step.rank] == steps_ || received_in[message.receiver.rank] == steps_) {
        kept.push_back(event);
        continue;
      }
      sent_in[message.step.rank] = received_in[message.receiver.rank] = steps_;
      over.push_back(event);
    }
    waiting = std::move(kept);
    tell(steps_);
  }
}

}  // namespace kolo::schedule
