// The receiver's part where it reads long messages out of the sender's memory.
#include <algorithm>
#include <vector>

#include "transport/link.hpp"

namespace kolo {
namespace {

constexpr std::size_t kFetchBytes = 128 * 1024;
// In one turn, for a peer to whom nothing is said meanwhile takes us for dead. Slow reductions take their
// time.
constexpr std::uint64_t kPullBytes = 16 << 20;
constexpr std::chrono::milliseconds kPullTime{20};

}  // namespace

void Link::answer_offer(const FrameHeader& offer, MessageRequest& request) {
  if (endpoint_->can_pull() && offer.range.region != FrameHeader::kNoRange) {
    if (pulls_.empty() && pull_left_ > 0) return pull(offer, request);
    pulls_.push_back({offer, &request});
    return;
  }
  receives_.add(request.tag, &request);
  reply(FrameType::ready, request.tag);
}

bool Link::pull_more() {
  pull_left_ = kPullBytes;
  pull_until_ = {};
  bool moved = false;
  for (; !pulls_.empty() && pull_left_ > 0; moved = true) {
    const Pull next = pulls_.front();
    pulls_.pop_front();
    pull(next.offer, *next.request);
  }
  return moved;
}

void Link::pull(const FrameHeader& offer, MessageRequest& request) {
  pull_left_ -= std::min(pull_left_, offer.bytes);
  if (pull_until_ == Clock::time_point{}) pull_until_ = Clock::now() + kPullTime;
  const Status pulled = endpoint_->revoked() ? Status() : copy_offered(offer, request);
  if (Clock::now() >= pull_until_) pull_left_ = 0;
  if (!pulled.ok() || endpoint_->revoked()) {
    // What we read, if anything, may no longer have been what was offered. A peer that takes its offers back
    // or goes away says why in the stream, behind the offer: that comes first.
    receives_.add(request.tag, &request);
    if (pull_status_.ok()) pull_status_ = pulled;
    return;
  }
  reply(FrameType::done, offer.tag);
  request.finished();
}

Status Link::copy_offered(const FrameHeader& offer, MessageRequest& request) {
  auto mapped = endpoint_->map(offer.range, offer.bytes);
  if (!mapped.ok()) return mapped.status();
  if (*mapped != nullptr) {
    request.consume(0, *mapped, offer.bytes);
    return {};
  }
  if (request.data != nullptr) return endpoint_->fetch(offer.range, {request.data, offer.bytes});
  static thread_local std::vector<std::byte> buffer(kFetchBytes);
  for (std::uint64_t done = 0; done < offer.bytes; done += kFetchBytes) {
    const std::uint64_t size = std::min<std::uint64_t>(kFetchBytes, offer.bytes - done);
    const RemoteRange piece{offer.range.region, offer.range.offset + done};
    if (Status s = endpoint_->fetch(piece, {buffer.data(), size}); !s.ok()) return s;
    request.consume(done, buffer.data(), size);
  }
  return {};
}

}  // namespace kolo
