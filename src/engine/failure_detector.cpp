#include "engine/failure_detector.hpp"

#include <algorithm>
#include <bitset>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "schedule/schedule.hpp"

namespace kolo::engine {
namespace {

constexpr int kBeatsBeforeLoss = 5;
// Pings are delivered too, but are no sign of life: the peer's kernel accepts them for a stopped process.
constexpr std::uint64_t kBytesOfPings = 4096;
// Payload of other peers that fills this rank's network link may delay a living peer's bytes, or lose them,
// for a while.
constexpr std::uint64_t kBytesOfBusyLink = 1 << 16;
constexpr int kHeartbeatsWhileBusy = 4;
constexpr std::chrono::nanoseconds kFirstWarning = std::chrono::seconds(10);
constexpr std::chrono::nanoseconds kFreshAnswer = std::chrono::seconds(1);
// Ranks that disagree about a call in shared memory may get no message that shows it. So a rank asks its
// peers after this time, and again and again, because they may not have made their call yet.
constexpr std::chrono::nanoseconds kAskAfter = std::chrono::milliseconds(200);
// An idle rank, on a busy machine, takes this long to answer: below it silence means nothing.
constexpr std::chrono::nanoseconds kAnswerTime = std::chrono::milliseconds(250);
// Every rank listens before any peer can dial it. So a peer that refuses connections for this long has ended.
constexpr std::chrono::nanoseconds kLongestRefusal = std::chrono::milliseconds(200);

/// How long before the deadline the peers are asked.
std::chrono::nanoseconds window_of(std::chrono::nanoseconds timeout) {
  return std::clamp<std::chrono::nanoseconds>(timeout / 4, std::chrono::milliseconds(1),
                                              std::chrono::seconds(1));
}

/// The peer is alive but has not made this call.
bool is_absent(const WaitingCall& call, const Pong& answer) {
  return call.kind == WaitingCall::Kind::collective && answer.last_sequence < call.ping.sequence;
}

}  // namespace

FailureDetector::FailureDetector(int rank, int size, std::chrono::nanoseconds heartbeat,
                                 MonitoredPeers& peers)
    : rank_(rank), size_(size), heartbeat_(heartbeat), beat_(heartbeat / kBeatsBeforeLoss), peers_(peers) {}

std::chrono::nanoseconds FailureDetector::patience(std::chrono::nanoseconds timeout) const noexcept {
  return std::min({kAskAfter, timeout - window_of(timeout), heartbeat_.count() > 0 ? beat_ : kAskAfter});
}

bool FailureDetector::is_unreachable(int peer) const {
  const PeerState state = peers_.state_of(peer);
  return state.was_cut ? state.refused_for.count() > 0 : state.refused_for >= kLongestRefusal;
}

/// The peer has ended and this rank waits for nothing from it. Otherwise find_gone() reports the loss.
bool FailureDetector::is_done_here(int peer) const {
  const PeerState state = peers_.state_of(peer);
  return !state.is_awaited && (state.has_left || state.refused_for >= kLongestRefusal);
}

std::optional<Failure> FailureDetector::find_gone(const std::vector<int>& awaited) const {
  for (int peer = 0; peer < size_; ++peer) {
    const PeerState state = peers_.state_of(peer);
    // A peer that was only sent a ping may have done its part and ended. What has come from it is taken in
    // first.
    const bool is_awaited = state.is_awaited && !state.has_buffered;
    if (!is_awaited && std::ranges::find(awaited, peer) == awaited.end()) continue;
    if (state.has_left || state.has_ended) {
      return Failure{
          Code::peer_lost, peer,
          fmt::format("{} has left (Connection closed by peer): it destroyed its communicator while "
                      "others still need it",
                      peers_.name_of(peer))};
    }
    if (state.refused_for >= kLongestRefusal) {
      return Failure{Code::peer_lost, peer,
                     fmt::format("lost {}: it cannot be reached (Connection closed by peer): {}",
                                 peers_.name_of(peer), peers_.connection_to(peer))};
    }
  }
  return std::nullopt;
}

std::optional<Failure> FailureDetector::check(const WaitingCall& call, Clock::time_point now) {
  if (auto silent = find_silent(call, now)) return silent;
  Inquiry& inquiry = inquiry_of(call);
  const auto idle = now - call.last_progress;
  if (call.is_without_messages && idle > kAskAfter && now - inquiry.asked > kAskAfter)
    ping_all(call, inquiry, now);
  const auto window = window_of(call.timeout);
  if (idle < call.timeout - window) return std::nullopt;
  if (inquiry.asked_finally == Clock::time_point{}) {
    inquiry.asked_finally = now;
    for (const int peer : call.ranks) {
      if (peer != rank_) inquiry.moved[peer] = peers_.state_of(peer).payload_moved;
    }
    ping_all(call, inquiry, now);
    return std::nullopt;
  }
  const bool have_all_answered = std::ranges::all_of(call.ranks, [&](int peer) {
    return peer == rank_ || inquiry.answer_of(peer, inquiry.asked_finally) != nullptr || is_done_here(peer);
  });
  const auto wait = have_all_answered ? window : std::max(window, kAnswerTime);
  if (idle < call.timeout || now - inquiry.asked_finally < wait) return std::nullopt;
  return diagnose_timeout(call, inquiry, now);
}

std::optional<Failure> FailureDetector::find_silent(const WaitingCall& call, Clock::time_point now) {
  if (heartbeat_.count() == 0 || now - call.last_progress < beat_) return std::nullopt;
  for (const int peer : call.awaited) {
    const PeerState state = peers_.state_of(peer);
    if (peer == rank_ || state.has_ended || state.has_left) continue;  // find_gone() reports these
    // All that the peer had to send may have come, and wait to be taken in.
    const bool is_needed =
        state.is_awaited || call.is_without_messages || call.kind >= WaitingCall::Kind::receive_from_any;
    if (!is_needed || !is_silent(peer, call.ping, now)) continue;
    return Failure{
        Code::peer_lost, peer,
        fmt::format("lost {}: timed out after {:.3g} s without a word from it: it is stopped, or its "
                    "machine or network is down ({})",
                    peers_.name_of(peer), to_seconds(now - liveness_[peer].heard),
                    peers_.connection_to(peer))};
  }
  return std::nullopt;
}

/// A peer that has not answered a ping within half a beat may have vanished with its host. So the other ranks
/// of that host are pinged as well: they are then found silent at the same time, not a heartbeat later.
bool FailureDetector::is_silent(int peer, const Ping& ping, Clock::time_point now) {
  if (heartbeat_.count() == 0) return false;
  const bool is_silent = hears_nothing_from(peer, ping, now, now - beat_);
  const auto heard = liveness_[peer].heard;
  if (now - heard <= beat_ + beat_ / 2) return is_silent;
  for (const int other : peers_.ranks_beside(peer)) {
    const PeerState state = peers_.state_of(other);
    if (!state.has_ended && !state.has_left) hears_nothing_from(other, {}, now, heard);
  }
  return is_silent;
}

std::vector<int> FailureDetector::silent_with(int peer, Clock::time_point now) {
  std::vector<int> silent{peer};
  for (const int other : peers_.ranks_beside(peer)) {
    if (liveness_.contains(other) && is_silent(other, {}, now)) silent.push_back(other);
  }
  return silent;
}

/// A living peer reads all that it is sent and answers pings, even while its program computes. So a slow peer
/// is never taken for silent. `since`: when it was last heard, if this rank has not checked it just before.
bool FailureDetector::hears_nothing_from(int peer, const Ping& ping, Clock::time_point now,
                                         Clock::time_point since) {
  const SignsOfLife signs = peers_.signs_of(peer);
  Liveness& last = liveness_[peer];
  // If this rank has not checked for a while (no thread waited, or this process was stopped), it has sent no
  // pings either: the time starts anew.
  const bool is_new = now - last.looked >= beat_;
  last.looked = now;
  if (is_new || signs.read != last.signs.read || signs.delivered > last.signs.delivered + kBytesOfPings) {
    last.signs.read = signs.read;
    last.signs.delivered = signs.delivered;
    last.heard = is_new ? since : now;
  }
  if (is_new || signs.elsewhere > last.signs.elsewhere + kBytesOfBusyLink) {
    last.signs.elsewhere = signs.elsewhere;
    last.busy = is_new ? last.heard : now;
  }
  if (now - last.asked >= beat_) {
    last.asked = now;
    peers_.ping(peer, ping);
  }
  const auto last_excuse = last.heard + (kHeartbeatsWhileBusy - 1) * heartbeat_;
  return now - std::max(last.heard, std::min(last.busy, last_excuse)) >= heartbeat_;
}

/// A call that has moved since the last inquiry waits anew.
FailureDetector::Inquiry& FailureDetector::inquiry_of(const WaitingCall& call) {
  Inquiry& inquiry = inquiries_[call.operation];
  if (inquiry.since != call.last_progress) inquiry = {call.ping, call.last_progress, kFirstWarning};
  return inquiry;
}

void FailureDetector::ping_all(const WaitingCall& call, Inquiry& inquiry, Clock::time_point now) {
  inquiry.asked = now;
  for (const int peer : call.ranks) {
    if (peer != rank_) peers_.ping(peer, call.ping);
  }
}

/// Messages of different pairs of ranks may have the same number.
void FailureDetector::on_pong(int peer, const Pong& pong, Clock::time_point now) {
  for (auto& [operation, inquiry] : inquiries_) {
    if (inquiry.ping.context != pong.context || inquiry.ping.sequence != pong.sequence) continue;
    // A peer that has no time left does not tell for how long: an earlier answer, or the first such, does.
    const auto before = inquiry.answers.find(peer);
    const bool is_past = pong.left_ms == 0 && before != inquiry.answers.end();
    const auto deadline = now + std::chrono::milliseconds(pong.left_ms);
    inquiry.answers[peer] = {pong, now, is_past ? std::min(before->second.deadline, now) : deadline};
  }
}

const Pong* FailureDetector::Inquiry::answer_of(int peer, Clock::time_point not_before) const {
  const auto answer = answers.find(peer);
  return answer != answers.end() && answer->second.at >= not_before ? &answer->second.pong : nullptr;
}

/// On a slow link the ping, or the call's own data, may be queued behind many bytes. While payload moves
/// there the peer is alive, and the wait goes on.
bool FailureDetector::is_moving(const Inquiry& inquiry, int peer) const {
  const auto then = inquiry.moved.find(peer);
  return then != inquiry.moved.end() && peers_.state_of(peer).payload_moved != then->second;
}

/// Names an unmatched message that has come from the awaited sender, perhaps in place of the missing one.
std::string FailureDetector::unmatched_message(const WaitingCall& call) const {
  if (call.kind == WaitingCall::Kind::send) return {};
  for (const int peer : call.awaited) {
    const auto tag = peers_.unmatched_tag(peer, call.ping.context);
    if (!tag) continue;
    const bool is_known = call.kind != WaitingCall::Kind::receive_from_any;
    return fmt::format("; {} has sent one with tag {}, which no recv has met",
                       is_known ? "it" : peers_.name_of(peer), *tag);
  }
  return {};
}

/// Each rank of a chain waits for the next one. The last one waits for none. If all of them wait, in a
/// circle, none is more to blame than `first`.
int FailureDetector::end_of_chain(const Inquiry& inquiry, int first) const {
  std::vector<int> chain{first};
  for (std::size_t i = 0; i < chain.size(); ++i) {
    const Pong* const answer = inquiry.answer_of(chain[i], inquiry.asked_finally);
    if (answer == nullptr || answer->waits_for.front() < 0) return chain[i];
    for (const int next : answer->waits_for) {
      const bool is_rank = next >= 0 && next < size_ && next != rank_;
      if (is_rank && std::ranges::find(chain, next) == chain.end()) chain.push_back(next);
    }
  }
  return first;
}

std::optional<Failure> FailureDetector::diagnose_timeout(const WaitingCall& call, Inquiry& inquiry,
                                                         Clock::time_point now) {
  std::vector<int> silent;
  std::vector<int> absent;
  std::vector<int> held_up;                      // absent too, but because they wait in another call
  auto own_deadline = Clock::time_point::min();  // the latest deadline of these ranks
  for (const int peer : call.ranks) {
    if (peer == rank_) continue;
    const Pong* const answer = inquiry.answer_of(peer, inquiry.asked_finally);
    if (answer == nullptr) {
      if (!is_moving(inquiry, peer) && !is_done_here(peer)) silent.push_back(peer);
    } else if (is_absent(call, *answer)) {
      const std::chrono::nanoseconds waits = std::chrono::milliseconds(answer->waits_ms);
      if (waits < call.timeout / 2) {
        absent.push_back(peer);
        continue;
      }
      held_up.push_back(peer);
      const std::chrono::nanoseconds left = std::chrono::milliseconds(answer->left_ms);
      if (left <= call.timeout / 2)  // else its timeout is longer than this call's
        own_deadline = std::max(own_deadline, inquiry.answers.at(peer).deadline);
    }
  }
  const auto fail = [&](int blamed, const std::string& why) {
    return Failure{
        Code::timeout, blamed,
        fmt::format("timed out after {:.3g} s without progress: {}", to_seconds(call.timeout), why)};
  };
  const auto accuse = [&](const std::vector<int>& peers, const std::string& of) {
    std::vector<std::string> names;
    for (const int peer : peers) names.push_back(peers_.name_of(peer));
    return fail(peers.front(), fmt::format("{}{}", fmt::join(names, " and "), of));
  };
  const auto last_call_of = [&](int peer) {
    const std::uint64_t last = inquiry.answers.at(peer).pong.last_sequence;
    return last == 0 ? "" : fmt::format("; its last was call {}", last);
  };
  if (!silent.empty())
    return accuse(silent, " does not answer: it is stopped, or its machine or network is down");
  if (!absent.empty()) {
    return accuse(absent, " is alive but has not made this call" + last_call_of(absent.front()));
  }
  if (!held_up.empty()) {
    // At its own deadline such a rank finds out which rank is to blame, and reports it.
    if (now < own_deadline + std::max(window_of(call.timeout), kAnswerTime)) return std::nullopt;
    const int first = held_up.front();
    std::string other;
    if (const std::bitset<32> meets = inquiry.answers.at(first).pong.meets; meets.any()) {
      std::vector<std::size_t> ranks;
      for (std::size_t r = 0; r < meets.size(); ++r) {
        if (meets[r]) ranks.push_back(r);
      }
      other = fmt::format("create_group({{{}}})", fmt::join(ranks, ", "));
    }
    if (const int last = end_of_chain(inquiry, first); last != first)
      return fail(last, fmt::format("{} has not made this call: it waits for {}{}{}", peers_.name_of(first),
                                    peers_.name_of(last), other.empty() ? "" : " in ", other));
    return accuse(held_up, fmt::format(", waiting in {}, has not made this one{}",
                                       other.empty() ? "another call" : other, last_call_of(first)));
  }
  const bool some_move = std::ranges::any_of(
      call.awaited, [&](int peer) { return is_moving(inquiry, peer) || peers_.state_of(peer).has_buffered; });
  if (some_move) {
    call.last_progress = now;
    return std::nullopt;
  }
  if (call.kind == WaitingCall::Kind::receive_from_any)
    return fail(-1, fmt::format("no rank has sent such a message{}", unmatched_message(call)));
  const int blamed = call.awaited.empty() ? rank_ : call.awaited.front();
  const std::string name = peers_.name_of(blamed);
  if (call.kind == WaitingCall::Kind::collective)
    return fail(blamed, fmt::format("all ranks answer and take part, waiting for {}", name));
  if (const int last = end_of_chain(inquiry, blamed); last != blamed)
    return fail(last,
                fmt::format("{} has not met this message: it waits for {}", name, peers_.name_of(last)));
  return fail(blamed,
              fmt::format("{} answers but has not met this message{}", name, unmatched_message(call)));
}

std::string FailureDetector::missing_ranks(const WaitingCall& call, Clock::time_point now) {
  const auto idle = now - call.last_progress;
  if (call.ranks.front() != rank_ || idle < kFirstWarning - kFreshAnswer) return {};
  Inquiry& inquiry = inquiry_of(call);
  if (idle < inquiry.next_warning - kFreshAnswer) return {};
  if (now - inquiry.asked > kFreshAnswer) ping_all(call, inquiry, now);
  if (idle < inquiry.next_warning) return {};
  inquiry.next_warning *= 2;
  std::vector<std::string> missing;
  for (const int peer : call.ranks) {
    if (peer == rank_) continue;
    const Pong* const answer = inquiry.answer_of(peer, now - 2 * kFreshAnswer);
    if (answer == nullptr) {
      if (!is_done_here(peer)) missing.push_back(peers_.name_of(peer) + " (no answer)");
    } else if (is_absent(call, *answer)) {
      const std::string last =
          answer->last_sequence == 0
              ? "no call so far"
              : fmt::format("last seen in {} #{}",
                            schedule::name_of(static_cast<schedule::Collective>(answer->last_collective)),
                            answer->last_sequence);
      const bool waits = std::chrono::milliseconds(answer->waits_ms) > idle / 2;
      missing.push_back(fmt::format("{} ({}{})", peers_.name_of(peer), last, waits ? ", waits itself" : ""));
    }
  }
  if (missing.empty()) {
    const bool is_collective = call.kind == WaitingCall::Kind::collective;
    for (const int peer : call.awaited)
      missing.push_back(peers_.name_of(peer) + (is_collective ? " (it takes part)" : " (it answers)"));
  }
  return fmt::format("{}", fmt::join(missing, ", "));
}

}  // namespace kolo::engine
