#include "observe/timeline_recorder.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/log.hpp"
#include "kolo/error.hpp"

namespace kolo::observe {
namespace {

/// The longest gap between two waits for the same ranks that the timeline shows as one wait: a thread that
/// wakes up and goes back to sleep takes less.
constexpr std::chrono::milliseconds kOneWait{1};

}  // namespace

TimelineRecorder::~TimelineRecorder() {
  record_wait();
  if (file_.folder.empty()) return;
  const auto path = fmt::format("{}/rank-{}-{}.json", file_.folder, file_.rank, file_.group);
  try {
    timeline_->write(path, file_.rank, file_.host, file_.group);
  } catch (const Error& error) {
    log().warn("no timeline: KOLO_TIMELINE={}: {}", file_.folder, error.what());
  }
}

void TimelineRecorder::ended(const ObservedCall& call, std::uint64_t sent, TimePoint begin, TimePoint end) {
  record_wait();
  timeline_->span(call.name, "communication", begin, end,
                  fmt::format("\"call\":{},\"sent_bytes\":{}", call.number, sent));
}

/// A link carries one message after the other: the time that a message waits behind earlier ones belongs to
/// those.
void TimelineRecorder::transferred(const ObservedCall& call, bool sent, int peer, std::uint64_t bytes,
                                   TimePoint posted) {
  if (last_.size() <= static_cast<std::size_t>(peer)) last_.resize(static_cast<std::size_t>(peer) + 1);
  TimePoint& last = last_[static_cast<std::size_t>(peer)][sent ? 0 : 1];
  const auto now = std::chrono::steady_clock::now();
  timeline_->span(call.name, fmt::format("{} rank {}", sent ? "to" : "from", peer), std::max(posted, last),
                  now, fmt::format("\"bytes\":{}", bytes));
  last = now;
}

void TimelineRecorder::waited(const std::vector<int>& peers, TimePoint begin, TimePoint end) {
  if (peers != wait_.peers || begin - wait_.end > kOneWait) {
    record_wait();
    wait_ = {peers, begin, end};
  }
  wait_.end = end;
}

/// Records one span, however often the driver has polled meanwhile.
void TimelineRecorder::record_wait() {
  const Wait wait = std::exchange(wait_, {});
  if (wait.peers.empty()) return;
  timeline_->span(fmt::format("for rank {}", fmt::join(wait.peers, ", ")), "waiting", wait.begin, wait.end,
                  fmt::format("\"ranks\":[{}]", fmt::join(wait.peers, ",")));
}

}  // namespace kolo::observe
