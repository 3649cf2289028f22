// What the Driver drives: the calls in shared memory and the links.
#include "engine/engine.hpp"

namespace kolo::engine {
namespace {

constexpr auto kBetweenPollsOfLinks = std::chrono::milliseconds(1);

}  // namespace

bool Engine::poll(bool system_calls) {
  bool moved = shared_memory_.advance();
  moved = poll_links(system_calls) || moved;
  propagate_failure();
  if (failure_) peers_.relink();
  return moved;
}

/// Ranks that share cores find the links' memory in no cache: to poll 63 links takes as long as to change to
/// another rank. So while such ranks wait for a call in shared memory alone, they poll the links now and
/// then.
bool Engine::poll_links(bool system_calls) {
  const bool may_wait = shared_memory_.waits_alone(active_.size());
  const auto now = may_wait ? Clock::now() : Clock::time_point{};
  if (may_wait && are_links_quiet() && now - links_quiet_since_ < kBetweenPollsOfLinks) return false;
  const bool moved = peers_.poll(system_calls);
  links_quiet_since_ = may_wait && !peers_.want_write() ? now : Clock::time_point{};
  return moved;
}

void Engine::tick() {
  check_deadlines();
  propagate_failure();
}

std::optional<Clock::time_point> Engine::oldest_start() const {
  return active_.empty() ? std::nullopt : std::optional(active_.oldest().started());
}

bool Engine::prepare_to_sleep() {
  links_quiet_since_ = {};
  awaited_ = awaited_peers();
  shared_memory_.fall_asleep();
  peers_.announce_sleep();
  return !shared_memory_.advance_and_tell() && peers_.arm();
}

bool Engine::prepare_to_nap() {
  awaited_ = awaited_peers();
  return shared_memory_.prepare_to_nap(active_.size());
}

void Engine::interrupt() {
  if (!shared_memory_.interrupt()) peers_.wake();
}

void Engine::woken(std::span<const std::uint32_t> sources, Clock::time_point idle_since) {
  for (const std::uint32_t source : sources) peers_.woken(source);
  if (!sources.empty()) links_quiet_since_ = {};
  shared_memory_.woken();
  peers_.disarm();
  if (awaited_.empty()) return;
  for (const auto& observer : options_.observers) observer->waited(awaited_, idle_since, Clock::now());
}

void Engine::out_of_memory() {
  on_no_memory();
  propagate_failure();
}

}  // namespace kolo::engine
