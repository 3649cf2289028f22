// Failures: lost peers, missed deadlines, and which rank is to blame.
#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/deadline.hpp"
#include "base/log.hpp"
#include "engine/engine.hpp"
#include "engine/message_number.hpp"
#include "transport/memory_fault.hpp"

namespace kolo {
namespace {

constexpr std::size_t kMostShown = 8;  // ranks of a communicator
constexpr int kPollsForCause = 16;     // reads of a link, each of which may end at an early message
constexpr auto kCheckEvery = std::chrono::milliseconds(10);
// Ranks that disagree about a native call may get no message that shows it. So a rank asks its peers after
// this time, and again and again, because they may not have made their call yet.
constexpr std::chrono::nanoseconds kAskAfter = std::chrono::milliseconds(200);
// An idle rank, on a busy machine, takes this long to answer: below it silence means nothing.
constexpr std::chrono::nanoseconds kAnswerTime = std::chrono::milliseconds(250);

/// How long before the deadline a rank asks its peers how far they are.
std::chrono::nanoseconds probe_window(std::chrono::nanoseconds timeout) {
  return std::clamp<std::chrono::nanoseconds>(timeout / 4, std::chrono::milliseconds(1),
                                              std::chrono::seconds(1));
}

bool is_message(const OperationSpec& spec) {
  return spec.collective == Collective::send_recv;
}

/// The call's name in the public API.
std::string_view name_of_call(const OperationSpec& spec) {
  if (!is_message(spec)) return name_of(spec.collective);
  return spec.prepared->plan->steps.front().kind == StepKind::send ? "send" : "recv";
}

}  // namespace

void Engine::record_failure(Failure failure, bool heard) {
  // A cause that another rank reports replaces a consequence that this rank has seen.
  if (failure_ || (pending_failure_ && (pending_is_remote_ || !heard))) return;
  pending_failure_ = std::move(failure);
  pending_is_remote_ = heard;
}

/// The peers wait for this rank's part. The cause is certain, so it counts as reported by a rank: no link is
/// read for another cause first.
void Engine::note_no_memory() {
  if (failure_) return;  // without memory even the text below is too much, and the first cause stays
  reserve_.reset();
  record_failure({Code::system, rank_, fmt::format("{} has no memory for its part", name_of_rank(rank_))},
                 true);
}

void Engine::note_throwing_reduction(const std::string& name, const std::string& what) {
  record_failure({Code::invalid_argument, rank_,
                  fmt::format("the reduction \"{}\" has thrown on {}: {}", name, name_of_rank(rank_), what)},
                 true);
}

Status Engine::end_without_memory() {
  const auto lock = enter();
  note_no_memory();
  propagate_failure();
  return Status(failure_->code, failure_->reason);
}

void Engine::abort(const std::string& reason) {
  const auto lock = enter();
  // A failure that was recorded before stays the cause. It may be unsettled while the driver sleeps.
  if (!pending_failure_) {
    record_failure({Code::aborted, rank_, fmt::format("{} aborted: {}", name_of_rank(rank_), reason)}, true);
  }
  propagate_failure();
  if (sleeping_) event_set_.wake();
}

void Engine::note_lost(std::size_t index) {
  if (lost_[index]) return;
  Link& link = *links_[index];
  if (is_memory_fault(link.status()) && !failure_) {
    // The link can still tell its peer what has happened, unless its stream ends within a message. Then the
    // link is lost at its next use.
    const int blamed = link.status().code() == kOwnMemoryFault ? rank_ : link.peer();
    return record_failure({Code::system, blamed,
                           fmt::format("{} passed memory that cannot be used: {} ({})", name_of_rank(blamed),
                                       link.status().message(), link.endpoint().transport())},
                          true);
  }
  lost_[index] = true;
  event_set_.remove(link.endpoint().fd());
  if (left_[index] || stopping_) return;
  const std::string why = link.status().ok() ? "it closed the connection" : link.status().message();
  const Code code = link.status().ok() ? Code::peer_lost : link.status().code();
  record_failure(
      {code, link.peer(),
       fmt::format("lost {}: {} ({})", name_of_rank(link.peer()), why, link.endpoint().transport())});
}

void Engine::propagate_failure() {
  if (!pending_failure_ || failure_) return;
  if (!pending_is_remote_) {
    // A peer that found the true cause first has sent it before it closed its own connection.
    for (std::size_t i = 0; i < links_.size(); ++i) {
      for (int polls = 0; polls < kPollsForCause && !lost_[i] && progress(i, true); ++polls) {
      }
    }
  }
  failure_ = pending_failure_;
  Failure told = *pending_failure_;
  if (!pending_is_remote_) told.reason += fmt::format(" (seen by rank {})", rank_);
  const auto payload = encode(told);
  for (std::size_t i = 0; i < links_.size(); ++i) {
    links_[i]->abandon();
    if (lost_[i] || !is_connected(i)) continue;
    links_[i]->send_control(static_cast<std::uint32_t>(ControlKind::abort), payload);
    progress(i, false);
  }
  for (const NativeGroup& native : groups_) {
    native.group->abandon(
        [&](int r) { return lost_[static_cast<std::size_t>(native.ranks[static_cast<std::size_t>(r)])]; });
  }
  log().info("rank {}: {}", rank_, failure_->reason);
  while (!active_.empty()) {
    Operation& operation = *active_.back();
    operation.end(status_for(operation, *failure_), operation.time_of_end());
    release(active_.size() - 1);
  }
  unmatched_.clear();
  probes_.clear();
  changed_.notify_all();
}

std::string Engine::call_of(const Operation& operation) const {
  const OperationSpec& spec = operation.spec();
  std::string text = options_.describe(spec.signature);
  if (const auto message = MessageNumber::from_sequence(spec.sequence)) {
    const std::string_view name = name_of_call(spec);
    const std::string peer =
        operation.is_unmatched()
            ? "any rank"
            : fmt::format("rank {}", operation.peer_of(spec.prepared->plan->steps.front()));
    text = fmt::format("{}({}) {} {} with tag {}", name, text, name == "send" ? "to" : "from", peer,
                       message->tag);
  } else {
    text = fmt::format("call {}, {}", spec.call, text);
  }
  const auto& ranks = spec.ranks();
  // Failures number ranks by their links. A communicator made by split() has other numbers, so its ranks are
  // listed.
  const bool is_part = ranks.size() < links_.size() || !std::ranges::is_sorted(ranks);
  if (is_part) {
    const auto shown = std::min(ranks.size(), kMostShown);
    text += fmt::format(" of the part with ranks {}",
                        fmt::join(ranks.begin(), ranks.begin() + static_cast<std::ptrdiff_t>(shown), ", "));
    if (shown < ranks.size()) text += ", ...";
  }
  return text;
}

Status Engine::status_for(const Operation& operation, const Failure& failure) const {
  const auto& ranks = operation.spec().ranks();
  const auto blamed = std::find(ranks.begin(), ranks.end(), failure.blamed);
  ErrorContext context;
  context.peer = blamed == ranks.end() ? -1 : static_cast<int>(blamed - ranks.begin());
  context.collective = name_of_call(operation.spec());
  context.sequence = operation.spec().call;
  context.step = operation.waiting_step();
  context.waited = Clock::now() - operation.started();
  std::string where;
  if (context.step >= 0 && !is_message(operation.spec())) where = fmt::format(" at step {}", context.step);
  if (context.step >= 0 || operation.is_unmatched())
    where += fmt::format(" after {:.3f} s", to_seconds(context.waited));
  return Status(failure.code, fmt::format("{}: {} failed{}", failure.reason, call_of(operation), where),
                context);
}

/// Records a failure for each peer that is gone while an operation still waits for it.
void Engine::check_gone() {
  std::vector<bool> needed(links_.size(), false);
  for (const NativeGroup& native : groups_) {
    for (const int r : native.group->waiting_for())
      needed[static_cast<std::size_t>(native.ranks[static_cast<std::size_t>(r)])] = true;
  }
  for (std::size_t i = 0; i < links_.size(); ++i) {
    if (!(left_[i] || lost_[i]) || !(needed[i] || links_[i]->is_waiting())) continue;
    record_failure({Code::peer_lost, static_cast<int>(i),
                    fmt::format("{} has left: it destroyed its communicator while others still need it",
                                name_of_rank(static_cast<int>(i)))});
  }
}

void Engine::check_links() {
  // All that a rank sent before it left has arrived when its goodbye has.
  for (const NativeGroup& native : groups_) native.group->advance();
  const bool is_any_gone = std::ranges::count(left_, true) + std::ranges::count(lost_, true) > 0;
  if (is_any_gone) check_gone();
  for (const Operation* operation : unmatched_) {
    if (can_be_matched(*operation)) continue;
    const OperationSpec& spec = operation->spec();
    const int first = spec.ranks()[static_cast<std::size_t>(other_ranks(spec.ranks()).front())];
    record_failure(
        {Code::peer_lost, first,
         fmt::format("{} has left, and no other rank is there that could send", name_of_rank(first))});
  }
}

void Engine::check_deadlines() {
  const auto now = Clock::now();
  if (now - last_check_ < kCheckEvery || failure_) return;
  last_check_ = now;
  check_links();
  check_unreachable();
  // Links in the middle of a message do not wake the driver for a few bytes. Bytes that come slowly are read
  // here.
  for (std::size_t i = 0; i < links_.size(); ++i) {
    if (!lost_[i] && links_[i]->incoming_left() > 0) progress(i, true);
  }
  const auto window = probe_window(options_.timeout);
  for (const auto& operation : active_) {
    const native::Group* group = operation->spec().group();
    if (group != nullptr && !group->is_first(*operation)) {
      operation->last_progress_ = now;  // it waits for its turn
      continue;
    }
    const auto idle = now - operation->last_progress();
    watch(*operation, now);
    warn(*operation, now);
    if (group != nullptr && idle > kAskAfter && now - operation->asked_ > kAskAfter) ask(*operation);
    const auto probe = probes_.find(operation.get());
    if (idle < options_.timeout - window) {
      if (probe != probes_.end()) probes_.erase(probe);
    } else if (probe == probes_.end()) {
      Probe& begun = probes_[operation.get()];
      begun.asked = now;
      for (const int peer : operation->spec().ranks()) {
        if (peer != rank_) begun.moved[peer] = link(peer).payload_moved();
      }
      ask(*operation);
    } else if (const auto asked = probe->second.asked;
               idle >= options_.timeout &&
               now - asked >=
                   (have_all_answered(*operation, asked) ? window : std::max(window, kAnswerTime))) {
      conclude(*operation, probe->second);
      if (pending_failure_) return;
    }
  }
}

bool Engine::have_all_answered(const Operation& operation, Clock::time_point since) const {
  return std::ranges::all_of(operation.spec().ranks(), [&](int peer) {
    return peer == rank_ || operation.answer_of(peer, since) != nullptr || is_done_here(peer);
  });
}

void Engine::ask(Operation& operation) {
  const OperationSpec& spec = operation.spec();
  operation.asked_ = Clock::now();
  const Ping ping{spec.context, 0, spec.sequence, spec.signature};
  for (const int peer : spec.ranks()) {
    if (peer != rank_) ask_rank(ping, static_cast<std::size_t>(peer));
  }
}

void Engine::answer(Link& from, const Ping& ping) {
  Pong pong;
  pong.context = ping.context;
  pong.sequence = ping.sequence;
  const Operation* in_flight = find(ping.context, ping.sequence);
  pong.in_flight = in_flight != nullptr;
  if (const auto known = contexts_.find(ping.context); known != contexts_.end()) {
    const Context& context = known->second;
    pong.last_sequence = context.last_sequence;
    pong.last_collective = context.history[context.last_sequence % Context::kHistory].collective;
    const Signature* mine = nullptr;
    if (ping.sequence <= context.last_sequence) {
      if (ping.sequence + Context::kHistory > context.last_sequence)
        mine = &context.history[ping.sequence % Context::kHistory];
      if (in_flight != nullptr) mine = &in_flight->spec().signature;
    }
    if (mine != nullptr && !(*mine == ping.signature))
      disagree(ping.sequence, *mine, from.peer(), ping.signature);
  }
  const auto now = Clock::now();
  for (const auto& operation : active_) {
    if (operation.get() == in_flight) continue;
    const auto idle = std::chrono::duration_cast<std::chrono::milliseconds>(now - operation->last_progress());
    pong.waits_ms =
        std::max(pong.waits_ms, static_cast<std::uint32_t>(std::max<std::int64_t>(idle.count(), 0)));
  }
  from.send_control(static_cast<std::uint32_t>(ControlKind::pong), as_payload(pong));
}

/// Names an unmatched message that has come from the awaited sender, perhaps in place of the missing one.
std::string Engine::other_tag(const Operation& operation) const {
  const OperationSpec& spec = operation.spec();
  const PlanStep& step = spec.prepared->plan->steps.front();
  std::string text;
  if (step.kind == StepKind::send) return text;
  for (const int source : operation.waiting_for()) {
    const int peer = spec.ranks()[static_cast<std::size_t>(source)];
    const Link& from = *links_[static_cast<std::size_t>(peer)];
    from.for_each_unexpected([&](const Tag& tag, const Signature&) {
      const auto other = MessageNumber::from_sequence(tag.sequence);
      if (tag.context != spec.context || !other || !text.empty()) return;
      const std::string who = operation.is_unmatched() ? name_of_rank(from.peer()) : "it";
      text = fmt::format("; {} has sent one with tag {}, which no recv has met", who, other->tag);
    });
  }
  return text;
}

void Engine::conclude(Operation& operation, const Probe& probe) {
  const OperationSpec& spec = operation.spec();
  // On a slow link the ping, or the operation's own data, may be queued behind many bytes. While payload
  // moves there the peer is alive, and the wait goes on.
  const auto moves = [&](int peer) {
    const auto then = probe.moved.find(peer);
    return then != probe.moved.end() && link(peer).payload_moved() != then->second;
  };
  std::vector<int> silent;
  std::vector<int> absent;
  std::vector<int> held_up;                      // absent too, but because they wait in another call
  auto own_deadline = Clock::time_point::min();  // the latest deadline of these ranks
  const auto names_of = [&](const std::vector<int>& ranks) {
    std::vector<std::string> names;
    for (const int rank : ranks) names.push_back(name_of_rank(rank));
    return names;
  };
  for (const int peer : spec.ranks()) {
    if (peer == rank_) continue;
    const Pong* const answer = operation.answer_of(peer, probe.asked);
    if (answer == nullptr) {
      if (!moves(peer) && !is_done_here(peer)) silent.push_back(peer);
    } else if (spec.call > 0 && answer->last_sequence < spec.sequence) {
      const std::chrono::nanoseconds waits = std::chrono::milliseconds(answer->waits_ms);
      if (waits < options_.timeout / 2) {
        absent.push_back(peer);
        continue;
      }
      held_up.push_back(peer);
      own_deadline = std::max(own_deadline, operation.answers_.at(peer).at + (options_.timeout - waits));
    }
  }
  const std::string waited = fmt::format("no progress for {:.3g} s", to_seconds(options_.timeout));
  Failure failure{Code::timeout, -1, {}};
  if (!silent.empty()) {
    failure.blamed = silent.front();
    failure.reason = fmt::format("{}: {} does not answer: it is stopped, or its machine or network is down",
                                 waited, fmt::join(names_of(silent), " and "));
  } else if (!absent.empty()) {
    failure.blamed = absent.front();
    failure.reason = fmt::format("{}: {} is alive but has not made this call; its last was call {}", waited,
                                 fmt::join(names_of(absent), " and "),
                                 operation.answer_of(absent.front(), probe.asked)->last_sequence);
  } else if (!held_up.empty()) {
    // At its own deadline such a rank finds out which rank is to blame, and reports it.
    const auto patience = std::max(probe_window(options_.timeout), kAnswerTime);
    if (Clock::now() < own_deadline + patience) return;
    failure.blamed = held_up.front();
    failure.reason =
        fmt::format("{}: {}, waiting in another call, has not made this one; its last was call {}", waited,
                    fmt::join(names_of(held_up), " and "),
                    operation.answer_of(held_up.front(), probe.asked)->last_sequence);
  } else {
    const auto waiting_for = operation.waiting_for();
    const bool some_move = std::any_of(waiting_for.begin(), waiting_for.end(), [&](int rank) {
      const int peer = spec.ranks()[static_cast<std::size_t>(rank)];
      return moves(peer) || link(peer).has_buffered();  // data that came from it is being taken in
    });
    if (some_move) {
      operation.last_progress_ = Clock::now();
      probes_.erase(&operation);
      return;
    }
    if (operation.is_unmatched()) {
      failure.reason = fmt::format("{}: no rank has sent such a message{}", waited, other_tag(operation));
      return record_failure(std::move(failure));
    }
    failure.blamed =
        waiting_for.empty() ? rank_ : spec.ranks()[static_cast<std::size_t>(waiting_for.front())];
    failure.reason = spec.call > 0 ? fmt::format("{}: all ranks answer and take part, waiting for {}", waited,
                                                 name_of_rank(failure.blamed))
                                   : fmt::format("{}: {} answers but has not met this message{}", waited,
                                                 name_of_rank(failure.blamed), other_tag(operation));
  }
  record_failure(std::move(failure));
}

}  // namespace kolo
