// What the Driver drives: the calls in shared memory and the links.
#include <limits>

#include "engine/engine.hpp"
#include "engine/native/nap.hpp"

namespace kolo::engine {

bool Engine::poll(bool system_calls) {
  bool moved = false;
  for (const Group* group : groups_.in_memory()) {
    if (group->native->is_busy()) moved = group->native->advance() || moved;
  }
  moved = peers_.poll(system_calls) || moved;
  propagate_failure();
  return moved;
}

void Engine::tick() {
  check_deadlines();
  propagate_failure();
}

std::optional<Clock::time_point> Engine::oldest_start() const {
  return active_.empty() ? std::nullopt : std::optional(active_.front()->started());
}

bool Engine::prepare_to_sleep() {
  awaited_ = awaited_peers();
  peers_.announce_sleep();
  bool moved = false;
  for (const Group* group : groups_.in_memory()) {
    if (group->native->is_busy()) moved = group->native->advance() || moved;
    group->native->tell();
  }
  return !moved && peers_.arm();
}

/// The group for whose first call a waiting caller may nap: its ranks share cores, and no other operation of
/// this process needs to be driven meanwhile.
Group* Engine::group_to_nap_on() const {
  if (peers_.has_descriptors() || peers_.want_write()) return nullptr;
  Group* found = nullptr;
  for (Group* group : groups_.in_memory()) {
    if (!group->native->is_busy()) continue;
    const bool is_only_one = found == nullptr && group->native->in_flight() == active_.size();
    if (!is_only_one || !group->native->can_nap()) return nullptr;
    found = group;
  }
  return found;
}

bool Engine::prepare_to_nap() {
  awaited_ = awaited_peers();
  Group* const group = group_to_nap_on();
  if (group == nullptr) return false;  // tick() has ended its call
  group->native->tell();
  napping_on_ = group->native->awaited();
  return napping_on_.counters != nullptr;
}

bool Engine::nap(std::chrono::nanoseconds longest) {
  native::nap(*napping_on_.counters, napping_on_.seen, longest);
  return napping_on_.has_changed();
}

void Engine::interrupt() {
  if (napping_on_.counters != nullptr) {
    native::wake_nappers(*napping_on_.counters, std::numeric_limits<int>::max());
  } else {
    peers_.wake();
  }
}

void Engine::woken(std::span<const std::uint32_t> sources, Clock::time_point idle_since) {
  for (const std::uint32_t source : sources) peers_.woken(source);
  napping_on_ = {};
  peers_.disarm();
  if (awaited_.empty()) return;
  for (const auto& observer : options_.observers) observer->waited(awaited_, idle_since, Clock::now());
}

void Engine::out_of_memory() {
  note_no_memory();
  propagate_failure();
}

}  // namespace kolo::engine
