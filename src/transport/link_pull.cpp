// The receiver's side of long messages that it takes in piece by piece: from the sender's memory, or from its
// own memory if they were kept.
#include <algorithm>
#include <vector>

#include "transport/link.hpp"

namespace kolo::transport {
namespace {

constexpr std::size_t kFetchBytes = 128 * 1024;
// Limit of one round of pulls: a peer that gets no answer for too long takes this rank for dead. Slow
// reductions may take all of `kPullTime`.
constexpr std::uint64_t kPullBytes = 16 << 20;
constexpr std::uint64_t kPieceBytes = 1 << 20;  // of a message, between two reads of the clock
constexpr std::chrono::milliseconds kPullTime{20};

}  // namespace

void Link::answer_rts(const FrameHeader& offer, MessageRequest& request) {
  if (endpoint_->can_pull() && offer.range.region != FrameHeader::kNoRange)
    return start_or_queue_pull({offer, &request});
  receives_.add(request.tag, {&request, true});
  reply(FrameType::cts, request.tag);
}

void Link::start_or_queue_pull(Pull next) {
  if (pulls_.empty() && pull_budget_left_ > 0) return pull(std::move(next));
  pulls_.push_back(std::move(next));
}

bool Link::pull_more() {
  pull_budget_left_ = kPullBytes;
  pull_until_ = {};
  bool moved = false;
  for (; !pulls_.empty() && pull_budget_left_ > 0; moved = true) {
    Pull next = std::move(pulls_.front());
    pulls_.pop_front();
    pull(std::move(next));
  }
  return moved;
}

void Link::pull(Pull next) {
  if (pull_until_ == Clock::time_point{}) pull_until_ = Clock::now() + kPullTime;
  Status pulled;
  while (next.done < next.offer.bytes && pull_budget_left_ > 0 && pulled.ok() && !endpoint_->revoked()) {
    const std::uint64_t piece = std::min(kPieceBytes, next.offer.bytes - next.done);
    pulled = copy_offered(next, piece);
    next.done += piece;
    pull_budget_left_ -= std::min(pull_budget_left_, piece);
    if (Clock::now() >= pull_until_) pull_budget_left_ = 0;
  }
  MessageRequest& request = *next.request;
  if (!pulled.ok() || endpoint_->revoked()) {
    // The bytes read may not be those that were offered. A peer that revokes its offers, or ends, says why in
    // the stream, behind the offer: that reason is reported first. revoked() is checked last, because the
    // peer may free the memory right after it revokes.
    receives_.add(request.tag, {&request, true});
    if (pull_status_.ok() && !endpoint_->revoked()) pull_status_ = pulled;
    return;
  }
  if (next.done < next.offer.bytes) return pulls_.push_front(std::move(next));
  const bool was_kept = next.kept.memory != nullptr;
  if (!was_kept || next.offer.acknowledged) reply(FrameType::ack, request.tag);
  if (was_kept) release(next.offer, std::move(next.kept));
  request.finished();
}

Status Link::copy_offered(const Pull& from, std::uint64_t bytes) {
  MessageRequest& request = *from.request;
  if (from.kept.memory != nullptr) {
    request.consume(from.done, from.kept.memory.get() + from.done, bytes);
    return {};
  }
  const RemoteRange range{from.offer.range.region, from.offer.range.offset + from.done};
  auto mapped = endpoint_->map(range, bytes);
  if (!mapped.ok()) return mapped.status();
  if (*mapped != nullptr) {
    request.consume(from.done, *mapped, bytes);
    return {};
  }
  if (request.data != nullptr) return endpoint_->fetch(range, {request.data + from.done, bytes});
  static thread_local std::vector<std::byte> buffer(kFetchBytes);
  for (std::uint64_t done = 0; done < bytes; done += kFetchBytes) {
    const std::uint64_t size = std::min<std::uint64_t>(kFetchBytes, bytes - done);
    const RemoteRange piece{range.region, range.offset + done};
    if (Status s = endpoint_->fetch(piece, {buffer.data(), size}); !s.ok()) return s;
    request.consume(from.done + done, buffer.data(), size);
  }
  return {};
}

}  // namespace kolo::transport
