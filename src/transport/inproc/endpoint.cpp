#include "transport/inproc/endpoint.hpp"

#include <cstring>
#include <thread>

namespace kolo::transport::inproc {
namespace {

Status peer_gone() {
  return Status(Code::peer_lost, "Connection closed by peer");
}

}  // namespace

InprocEndpoint::InprocEndpoint(std::shared_ptr<Channel> channel, int side)
    : channel_(std::move(channel)),
      side_(side),
      out_(&channel_->direction(side).control, channel_->direction(side).data.get(), kRingBytes),
      in_(&channel_->direction(1 - side).control, channel_->direction(1 - side).data.get(), kRingBytes) {}

InprocEndpoint::~InprocEndpoint() {
  incoming().pulling.store(false);
  channel_->end();
}

std::string InprocEndpoint::describe() const {
  return "inproc from rank " + std::to_string(channel_->rank(side_)) + " to rank " +
         std::to_string(channel_->rank(1 - side_));
}

Result<std::size_t> InprocEndpoint::write(std::span<const iovec> parts) {
  if (channel_->ended()) return peer_gone();
  if (channel_->stalled() || !out_.has_room()) return std::size_t{0};
  const auto delay = channel_->delay();
  if (delay.count() != 0) channel_->direction(side_).delay_line.hold(out_.position(), Clock::now() + delay);
  return out_.write(parts, [this] { channel_->doorbell(1 - side_).ring(); });
}

Result<std::size_t> InprocEndpoint::read(std::span<std::byte> into) {
  // Loaded before the ring is read: all that the peer wrote before the end is then in the ring.
  const bool ended = channel_->ended();
  if (channel_->stalled()) return ended ? Result<std::size_t>(peer_gone()) : std::size_t{0};
  if (channel_->delay().count() != 0) {
    Clock::time_point next;
    into = into.first(std::min(into.size(), readable(next)));
  }
  const std::size_t done = in_.read(into, [this] { channel_->doorbell(1 - side_).ring(); });
  if (done == 0 && ended && in_.available() == 0) return peer_gone();
  return done;
}

std::size_t InprocEndpoint::readable(Clock::time_point& next) {
  const std::uint64_t end = in_.position() + in_.available();
  const std::uint64_t limit = incoming().delay_line.readable(end, next);
  return limit > in_.position() ? limit - in_.position() : 0;
}

int InprocEndpoint::fd() const {
  return channel_->doorbell(side_).fd();
}

bool InprocEndpoint::arm(bool for_room) {
  const bool empty = in_.sleep();
  const bool full = !for_room || out_.wait_for_room();
  if (channel_->ended()) return false;
  if (channel_->stalled()) return true;  // set_stalled() rings when the stall ends
  if (!full) return false;
  if (empty) return true;
  if (channel_->delay().count() == 0) return false;
  Clock::time_point next;
  if (readable(next) > 0) return false;
  ring_later(channel_, side_, next);
  return true;
}

void InprocEndpoint::disarm() {
  in_.stop_sleeping();
  out_.stop_waiting();
}

Status InprocEndpoint::drain() {
  channel_->doorbell(side_).silence();
  if (!channel_->ended()) return Status();
  channel_->doorbell(side_).ring();  // fd() of an ended channel stays readable
  return in_.available() > 0 && !channel_->stalled() ? Status() : peer_gone();
}

std::optional<RemoteRange> InprocEndpoint::expose(const void* data, std::size_t) {
  return RemoteRange{0, reinterpret_cast<std::uintptr_t>(data)};
}

// The puller announces its pull, then checks for revocation. revoke() revokes, then checks for a pull. So
// either the puller sees the revocation and does not read, or the revoker sees the pull and waits for its
// end. Both update `revoked`, so the second one also acquires what the first one stored before.

Result<const std::byte*> InprocEndpoint::map(const RemoteRange& range, std::size_t bytes) {
  if (channel_->ended()) return peer_gone();
  if (range.region != 0 || range.offset == 0 || range.offset + bytes < range.offset) {
    return Status(Code::system, "the peer named memory that does not exist");
  }
  incoming().pulling.store(true);
  if (in_.writer_revoked()) {
    incoming().pulling.store(false);
    return nullptr;
  }
  return reinterpret_cast<const std::byte*>(range.offset);
}

Status InprocEndpoint::fetch(const RemoteRange& range, std::span<std::byte> into) {
  const auto from = map(range, into.size());
  if (!from.ok()) return from.status();
  if (from.value() != nullptr) std::memcpy(into.data(), from.value(), into.size());
  incoming().pulling.store(false);
  return Status();
}

void InprocEndpoint::revoke() {
  out_.revoke();
  const auto limit = Deadline::after(std::chrono::seconds(10));  // a pull lasts as long as one reduction
  while (channel_->direction(side_).pulling.load() && !limit.passed()) std::this_thread::yield();
}

bool InprocEndpoint::revoked() const {
  incoming().pulling.store(false);
  return in_.writer_revoked();
}

}  // namespace kolo::transport::inproc
