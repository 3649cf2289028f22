// Words: messages between survivors, over links whose operations have failed.
#include <algorithm>

#include "engine/engine.hpp"

namespace kolo {
namespace {

constexpr std::chrono::nanoseconds kLook = std::chrono::milliseconds(20);

}  // namespace

void Engine::tell(int peer, std::span<const std::byte> bytes) {
  const auto lock = enter();
  const auto index = static_cast<std::size_t>(peer);
  if (lost_[index]) return;
  links_[index]->send_control(static_cast<std::uint32_t>(ControlKind::word), bytes);
  if (driver_ != Driver::caller) progress(index, false);
  if (sleeping_) event_set_.wake();
}

std::optional<Engine::RecoveryMessage> Engine::hear(
    const std::function<bool(const RecoveryMessage&)>& is_meant, const std::vector<int>& awaited,
    const Deadline& deadline) {
  auto lock = enter();
  const Deadline look = Deadline::after(std::min<std::chrono::nanoseconds>(deadline.left(), kLook));
  const std::size_t lost = std::ranges::count(lost_, true);
  const auto next = [&] { return std::ranges::find_if(recovery_messages_, is_meant); };
  wait_until(lock, look, [&] {
    return next() != recovery_messages_.end() ||
           static_cast<std::size_t>(std::ranges::count(lost_, true)) > lost;
  });
  if (const auto found = next(); found != recovery_messages_.end()) {
    RecoveryMessage word = std::move(*found);
    recovery_messages_.erase(found);
    recovery_bytes_ -= word.bytes.size();
    return word;
  }
  const auto now = Clock::now();
  for (const int peer : awaited) {
    const auto index = static_cast<std::size_t>(peer);
    if (lost_[index] || options_.heartbeat.count() == 0) continue;
    if (is_silent(index, {}, now)) silent_[index] = true;
  }
  return std::nullopt;
}

bool Engine::is_gone(int peer) const {
  const auto lock = enter();
  const auto index = static_cast<std::size_t>(peer);
  return lost_[index] || silent_[index] || left_[index] || blames(peer) || is_unreachable(peer);
}

bool Engine::is_blamed(int peer) const {
  const auto lock = enter();
  return blames(peer);
}

bool Engine::blames(int peer) const {
  return failure_ && failure_->code == Code::peer_lost && failure_->blamed == peer;
}

}  // namespace kolo
