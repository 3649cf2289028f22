#include "engine/recovery.hpp"

#include <algorithm>

#include "engine/engine.hpp"
#include "transport/memory_fault.hpp"

namespace kolo::engine {
namespace {

constexpr std::chrono::nanoseconds kRecoveryPollInterval = std::chrono::milliseconds(20);

}  // namespace

void Engine::send_recovery(int peer, std::span<const std::byte> bytes) {
  const auto lock = driver_.enter();
  Peer& to = peers_[peer];
  if (to.has_ended) return;
  to.send(ControlKind::recovery, bytes);
  if (!driver_.has_caller()) peers_.progress(to, false);
  driver_.kick();
}

std::optional<RecoveryMessage> Engine::receive_recovery(
    const std::function<bool(const RecoveryMessage&)>& is_meant, const std::vector<int>& awaited,
    const Deadline& deadline) {
  auto lock = driver_.enter();
  const auto wait = std::min<std::chrono::nanoseconds>(deadline.left(), kRecoveryPollInterval);
  const auto lost = [&] {
    return std::ranges::count(peers_.all(), true, [&](const auto& p) { return is_lost(*p); });
  };
  const auto lost_before = lost();
  std::optional<RecoveryMessage> message;
  driver_.run_until(lock, Deadline::after(wait), [&] {
    if (!message) message = mailbox_.take(is_meant);
    return message || lost() > lost_before;
  });
  if (message) return message;
  const auto now = Clock::now();
  for (const int peer : awaited) {
    if (!peers_[peer].has_ended && detector_.is_silent(peer, {}, now)) peers_[peer].is_silent = true;
  }
  return std::nullopt;
}

bool Engine::has_recovery(const std::function<bool(const RecoveryMessage&)>& is_meant) const {
  const auto lock = driver_.enter();
  return mailbox_.has(is_meant);
}

Status Engine::own_trouble() const {
  const auto lock = driver_.enter();
  const auto trouble = peers_.own_trouble();
  return trouble ? Status(trouble->code, trouble->reason) : Status();
}

bool Engine::is_gone(int peer) const {
  const auto lock = driver_.enter();
  return is_lost(peers_[peer]) || blames(peer);
}

bool Engine::is_lost(Peer& peer) const {
  return peer.has_left || peer.is_silent || (peer.has_ended && !peers_.may_relink(peer)) ||
         detector_.is_unreachable(peer.link.peer());
}

bool Engine::has_seen_end(int peer) const {
  const auto lock = driver_.enter();
  Peer& p = peers_[peer];
  const Status& status = p.link.status();
  const bool is_closed =
      p.has_ended && (status.ok() || status.code() == Code::peer_lost) && !peers_.is_cut(p);
  return !p.is_silent && (p.has_left || is_closed || detector_.is_unreachable(peer));
}

int Engine::relinks_to(int peer) const {
  const auto lock = driver_.enter();
  return peers_[peer].relinks;
}

bool Engine::is_unconnected(int peer) const {
  if (is_gone(peer)) return false;
  const auto lock = driver_.enter();
  return !peers_[peer].is_connected();
}

bool Engine::is_blamed(int peer) const {
  const auto lock = driver_.enter();
  if (peers_[peer].is_silent || blames(peer)) return true;
  return failure_ && failure_->is_cut && failure_->blamed == peer && detector_.is_unreachable(peer);
}

bool Engine::has_cut_message() const {
  const auto lock = driver_.enter();
  return std::ranges::any_of(peers_.all(), [](const auto& peer) {
    return peer->has_ended && peer->link.status().code() == transport::kOwnMemoryFault;
  });
}

bool Engine::blames(int peer) const {
  return failure_ && failure_->code == Code::peer_lost && failure_->blamed == peer && !failure_->is_cut;
}

}  // namespace kolo::engine
