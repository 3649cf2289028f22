// What the Driver drives: the calls in shared memory and the links.
#include "engine/engine.hpp"

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

void Engine::woken(std::span<const std::uint32_t> sources, Clock::time_point idle_since) {
  for (const std::uint32_t source : sources) peers_.woken(source);
  peers_.disarm();
  if (awaited_.empty()) return;
  for (const auto& observer : options_.observers) observer->waited(awaited_, idle_since, Clock::now());
}

void Engine::out_of_memory() {
  note_no_memory();
  propagate_failure();
}

}  // namespace kolo::engine
