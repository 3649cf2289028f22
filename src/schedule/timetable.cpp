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

/// A message, with what the steps need to know of it.
struct Message {
  std::uint32_t event;
  std::uint32_t sender;
  std::uint32_t receiver;
};

/// All messages, first those that go first where several are ready.
std::vector<Message> in_order(const MessageGraph& graph) {
  struct Key {
    std::uint32_t behind;
    std::uint32_t place;  // in the schedules of its two sides: the later one
    std::uint32_t event;
  };
  const std::vector<std::uint32_t> behind = chains_behind(graph);
  std::vector<Key> keys;
  for (std::uint32_t event = 0; event < behind.size(); ++event) {
    const MessageGraph::Event& it = graph.events()[event];
    if (it.is_message) keys.push_back({behind[event], std::max(it.step.step, it.receiver.step), event});
  }
  std::sort(keys.begin(), keys.end(), [](const Key& a, const Key& b) {
    if (a.behind != b.behind) return a.behind > b.behind;
    return a.place != b.place ? a.place < b.place : a.event < b.event;
  });
  std::vector<Message> messages;
  for (const Key& key : keys) {
    const MessageGraph::Event& it = graph.events()[key.event];
    messages.push_back({key.event, it.step.rank, it.receiver.rank});
  }
  return messages;
}

}  // namespace

Timetable::Timetable(std::span<const Schedule> schedules, const MessageGraph& graph)
    : step_of_(graph.events().size(), 0) {
  const std::size_t count = step_of_.size();
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

  const std::vector<Message> messages = in_order(graph);
  std::vector<std::uint32_t> place_of(count, 0);  // of a message among `messages`
  for (std::uint32_t place = 0; place < messages.size(); ++place) place_of[messages[place].event] = place;

  std::vector<std::uint32_t> waiting;  // places of the messages whose waits are over, in order
  std::vector<std::uint32_t> ready;    // those that join them in the next step
  std::vector<std::uint32_t> over;     // events that have happened; their followers are not updated yet
  const auto waits_are_over = [&](std::uint32_t event) {
    if (graph.events()[event].is_message) {
      ready.push_back(place_of[event]);
    } else {
      over.push_back(event);
    }
  };
  const auto tell = [&](std::uint32_t step) {
    while (!over.empty()) {
      const std::uint32_t event = over.back();
      over.pop_back();
      step_of_[event] = step;
      for (std::size_t i = first_follower[event]; i < first_follower[event + 1]; ++i) {
        if (--left[followers[i]] == 0) waits_are_over(followers[i]);
      }
    }
  };
  for (std::uint32_t event = 0; event < count; ++event) {
    if (left[event] == 0) waits_are_over(event);
  }
  tell(0);
  constexpr std::uint32_t kNever = std::numeric_limits<std::uint32_t>::max();
  std::vector<std::uint32_t> sent_in(schedules.size(), kNever);
  std::vector<std::uint32_t> received_in(schedules.size(), kNever);
  while (!waiting.empty() || !ready.empty()) {
    ++steps_;
    std::sort(ready.begin(), ready.end());
    const auto middle = waiting.insert(waiting.end(), ready.begin(), ready.end());
    std::inplace_merge(waiting.begin(), middle, waiting.end());
    ready.clear();
    auto kept = waiting.begin();
    for (const std::uint32_t place : waiting) {
      const Message& message = messages[place];
      if (sent_in[message.sender] == steps_ || received_in[message.receiver] == steps_) {
        *kept++ = place;
        continue;
      }
      sent_in[message.sender] = received_in[message.receiver] = steps_;
      over.push_back(message.event);
    }
    waiting.erase(kept, waiting.end());
    tell(steps_);
  }
}

}  // namespace kolo::schedule
