// Failures: lost peers, missed deadlines, and which rank is to blame.
#include <algorithm>
#include <limits>
#include <set>
#include <tuple>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/deadline.hpp"
#include "base/log.hpp"
#include "engine/engine.hpp"
#include "engine/message_number.hpp"
#include "transport/memory_fault.hpp"

namespace kolo::engine {
namespace {

constexpr std::size_t kMostShown = 8;                   // ranks of a communicator
constexpr std::uint64_t kMostBytesForCause = 64 << 20;  // more than what the buffers of a connection hold
constexpr int kSignsInHeartbeat = 5;
constexpr auto kCheckEvery = std::chrono::milliseconds(10);
constexpr auto kCheckAtLeast = std::chrono::milliseconds(100);
constexpr int kRestAfterCheck = 9;  // times as long as the check has taken

bool is_message(const OperationSpec& spec) {
  return spec.key().collective == schedule::Collective::send_recv;
}

std::uint32_t in_ms(std::chrono::nanoseconds time) {
  const auto ms = std::chrono::ceil<std::chrono::milliseconds>(time).count();
  return static_cast<std::uint32_t>(
      std::clamp<std::int64_t>(ms, 0, std::numeric_limits<std::uint32_t>::max()));
}

/// Calls within create_group() have numbers that tell a reader nothing.
bool is_meeting(const OperationSpec& spec) {
  return spec.group->context == Groups::kMeeting;
}

/// "send", "recv" or "probe".
std::string_view name_of_message(const OperationSpec& spec) {
  if (spec.probed != kNoSource) return "probe";
  return spec.prepared->plan->steps.front().kind == schedule::StepKind::send ? "send" : "recv";
}

}  // namespace

void Engine::record_failure(Failure failure, bool heard) {
  // A cause that another rank reports replaces a consequence that this rank has seen.
  if (failure_ || (pending_failure_ && (pending_is_remote_ || !heard))) return;
  pending_failure_ = std::move(failure);
  pending_is_remote_ = heard;
  links_quiet_since_ = {};
}

void Engine::on_failure(int blamed, const std::string& why) {
  record_failure({Code::system, blamed, fmt::format("{}: {}", peers_.name_of(blamed), why)});
}

/// The peers wait for this rank's part. The cause is certain, so it counts as reported by a rank: no link is
/// read for another cause first.
void Engine::on_no_memory() {
  if (failure_) return;  // without memory even the text below is too much, and the first cause stays
  reserve_.reset();
  record_failure({Code::system, rank_, fmt::format("{} has no memory for its part", peers_.name_of(rank_))},
                 true);
}

void Engine::on_throwing_reduction(const std::string& name, const std::string& what) {
  record_failure(
      {Code::invalid_argument, rank_,
       fmt::format("the reduction \"{}\" has thrown on {}: {}", name, peers_.name_of(rank_), what)},
      true);
}

/// A rank in a slow reduction answers no ping, and many calls of it may follow before the links are read.
void Engine::on_reduced() {
  const auto now = Clock::now();
  if (options_.heartbeat.count() == 0 || now < last_sign_ + options_.heartbeat / kSignsInHeartbeat) return;
  last_sign_ = now;
  for (const auto& peer : peers_.all()) {
    if (peer->has_ended || !peer->is_connected() || peer->link.peer() == rank_) continue;
    peer->send(ControlKind::alive, {});
    peer->link.write_now();
  }
}

Status Engine::end_without_memory() {
  const auto lock = driver_.enter();
  on_no_memory();
  propagate_failure();
  return Status(failure_->code, failure_->reason);
}

void Engine::fail(Code code, const std::string& what) {
  const auto lock = driver_.enter();
  // A failure that was recorded before stays the cause. It may be unsettled while the driver sleeps.
  if (!pending_failure_)
    record_failure({code, rank_, fmt::format("{} {}", peers_.name_of(rank_), what)}, true);
  propagate_failure();
  driver_.kick();
}

void Engine::on_connected(Peer& peer, const Status& watched) {
  observe_attempts(peer);
  if (!watched.ok()) record_failure({watched.code(), rank_, watched.message()});
  if (failure_) peer.send(ControlKind::abort, encode(*failure_));
}

void Engine::on_broken(Peer& peer) {
  if (peer.has_ended) return;
  transport::Link& link = peer.link;
  if (transport::is_memory_fault(link.status()) && !failure_) {
    // The link can still tell its peer what has happened, unless its stream ends within a message. Then the
    // link is lost at its next use.
    const int blamed = link.status().code() == transport::kOwnMemoryFault ? rank_ : link.peer();
    return record_failure(
        {Code::system, blamed,
         fmt::format("{} passed memory that cannot be used: {} ({})", peers_.name_of(blamed),
                     link.status().message(), link.endpoint().transport())},
        true);
  }
  peers_.close(peer);
  if (peer.has_left || driver_.is_stopping()) return;
  for (const auto& observer : options_.observers) observer->lost(link.peer());
  const std::string why = link.status().ok() ? "Connection closed by peer" : link.status().message();
  peer.is_silent = peer.is_silent || link.status().code() == Code::timeout;
  const Code code = link.status().ok() || peer.is_silent ? Code::peer_lost : link.status().code();
  record_failure(
      {code, link.peer(),
       fmt::format("lost {}: {} ({})", peers_.name_of(link.peer()), why, link.endpoint().transport()),
       peers_.is_cut(peer)});
}

void Engine::propagate_failure() {
  if (!pending_failure_ || failure_) return;
  if (!pending_is_remote_) {
    // A peer that found the true cause first has sent it before it closed its own connection.
    for (const auto& peer : peers_.all()) peers_.read_all(*peer, kMostBytesForCause);
  }
  failure_ = pending_failure_;
  Failure told = *pending_failure_;
  if (!pending_is_remote_) told.reason += fmt::format(" (seen by rank {})", rank_);
  const auto payload = encode(told);
  for (const auto& peer : peers_.all()) {
    peer->link.abandon();
    if (peer->has_ended || !peer->is_connected()) continue;
    peer->send(ControlKind::abort, payload);
    peers_.progress(*peer, false);
  }
  schedules_.abandon();
  shared_memory_.abandon();
  log().info("rank {}: {}", rank_, failure_->reason);
  while (!active_.empty()) end(active_.oldest(), *failure_);
  detector_.forget_all();
  driver_.notify_waiting();
}

void Engine::end(Operation& operation, const Failure& failure) {
  operation.start_clock();
  operation.end(status_for(operation, failure), Clock::now());
  release(operation);
}

/// All ranks are told of a collective that ends. Messages end here alone: a peer that waits for one finds
/// that this rank has left, and whose loss its messages met. It reads so before this rank takes back the
/// memory from which it pulls.
void Engine::leave() {
  Failure failure{Code::peer_lost, rank_, fmt::format("rank {} destroyed its communicator", rank_)};
  for (const Operation& operation : active_) {
    if (!is_message(operation.spec())) record_failure(failure);
  }
  propagate_failure();
  const auto cause = first_loss_ ? encode(*first_loss_) : std::vector<std::byte>();
  for (const auto& peer : peers_.all()) {
    peer->send(ControlKind::goodbye, cause);
    if (!active_.empty() && peer->is_connected() && !peer->has_ended) peers_.progress(*peer, false);
  }
  if (failure_ || active_.empty()) return;
  for (const auto& peer : peers_.all()) peer->link.abandon();
  schedules_.abandon();
  while (!active_.empty()) end(active_.oldest(), failure);
}

/// Messages that wait for a peer that is gone end alone. Returns false, and does nothing, if a collective
/// waits for it.
bool Engine::end_messages(int peer, const Failure& gone) {
  std::vector<Operation*> messages;
  for (Operation& operation : active_) {
    const auto& ranks = operation.spec().ranks();
    const auto place = std::ranges::find(ranks, peer);
    if (place == ranks.end() || !operation.needs(static_cast<int>(place - ranks.begin()))) continue;
    if (!is_message(operation.spec())) return false;
    messages.push_back(&operation);
  }
  if (messages.empty()) return false;
  peers_[peer].link.forget();
  if (!first_loss_) first_loss_ = gone;
  for (Operation* const operation : messages) end(*operation, gone);
  return true;
}

std::string Engine::call_of(const Operation& operation) const {
  const OperationSpec& spec = operation.spec();
  std::string text = options_.describe(spec.signature);
  if (const auto message = MessageNumber::from_sequence(spec.sequence)) {
    const std::string_view name = name_of_message(spec);
    const int source = operation.source();
    const std::string peer =
        operation.is_unmatched() && spec.probed < 0
            ? "any rank"
            : fmt::format("rank {}", source >= 0 ? source : spec.prepared->plan->steps.front().peer);
    if (name == "probe") text = "a message";
    text = fmt::format("{}({}) {} {} with tag {}", name, text, name == "send" ? "to" : "from", peer,
                       message->tag);
  } else {
    text = fmt::format("call {}, {}", spec.call, text);
  }
  const auto& ranks = spec.ranks();
  const auto shown = ranks.begin() + static_cast<std::ptrdiff_t>(std::min(ranks.size(), kMostShown));
  const std::string listed =
      fmt::format("{}{}", fmt::join(ranks.begin(), shown, ", "), shown < ranks.end() ? ", ..." : "");
  if (is_meeting(spec)) return fmt::format("create_group({{{}}})", listed);
  // Failures number ranks by their links. A communicator made by split() has other numbers, so its ranks are
  // listed.
  const bool is_part = ranks.size() < static_cast<std::size_t>(size()) || !std::ranges::is_sorted(ranks);
  if (is_part) text += " of the part with ranks " + listed;
  return text;
}

Status Engine::status_for(const Operation& operation, const Failure& failure) const {
  const auto& ranks = operation.spec().ranks();
  const auto blamed = std::find(ranks.begin(), ranks.end(), failure.blamed);
  ErrorContext context;
  context.peer = blamed == ranks.end() ? -1 : static_cast<int>(blamed - ranks.begin());
  if (is_message(operation.spec())) {
    context.collective = name_of_message(operation.spec());
  } else {  // "all_reduce(sum of ..." and "split() ..." begin with the call's name
    const std::string text = options_.describe(operation.spec().signature);
    context.collective = text.substr(0, text.find_first_of("( "));
  }
  if (!is_meeting(operation.spec())) context.sequence = operation.spec().call;
  context.step = operation.waiting_step();
  context.waited = Clock::now() - operation.started();
  std::string where;
  if (context.step >= 0 && !is_message(operation.spec())) where = fmt::format(" at step {}", context.step);
  if (context.step >= 0 || operation.is_unmatched())
    where += fmt::format(" after {:.3f} s", to_seconds(context.waited));
  return Status(failure.code, fmt::format("{}: {} failed{}", failure.reason, call_of(operation), where),
                context);
}

void Engine::check_peers() {
  for (const auto& peer : peers_.all()) {
    if (peer->connection == Peer::Connection::dialling) observe_attempts(*peer);
  }
  // All that a rank sent before it left has arrived when its goodbye has.
  shared_memory_.advance();
  std::vector<int> awaited;  // by calls in shared memory; mostly none is gone, and nothing is allocated
  if (std::ranges::any_of(peers_.all(), [](const auto& peer) { return peer->is_gone(); }))
    awaited = shared_memory_.awaited_peers();
  while (auto failure = detector_.find_gone(awaited)) {
    const int peer = failure->blamed;
    if (const auto& loss = peers_[peer].loss) {
      failure = Failure{loss->code, loss->blamed,
                        fmt::format("{} (seen by {}, which has left)", loss->reason, peers_.name_of(peer)),
                        loss->is_cut};
    }
    if (end_messages(peer, *failure)) continue;
    record_failure(std::move(*failure));
    break;
  }
  if (auto failure = peers_.own_trouble()) record_failure(std::move(*failure), true);
  while (Operation* const receive = schedules_.find_unmatchable()) {
    const int first = receive->spec().ranks()[static_cast<std::size_t>(receive->waiting_for().front())];
    schedules_.forget(*receive);
    end(*receive,
        {Code::peer_lost, first,
         fmt::format("{} has left, and no other rank is there that could send", peers_.name_of(first))});
  }
}

void Engine::check_deadlines() {
  const auto now = Clock::now();
  if (now < next_check_ || failure_) return;
  check_peers();
  peers_.read_unfinished();
  // The oldest operation that waits for a rank speaks for all: 100,000 would ask too much of the rank.
  std::set<std::tuple<const Group*, WaitingCall::Kind, std::chrono::nanoseconds, int>> asked;
  for (Operation& operation : active_) {
    if (operation.is_behind()) operation.touch(now);
    const auto idle = now - operation.last_progress();
    if (idle < detector_.patience(operation.spec().timeout)) continue;
    const WaitingCall call = waiting_call(operation);
    const auto is_asked = [&](int peer) {
      return !asked.emplace(operation.spec().group, call.kind, call.timeout, peer).second;
    };
    if (std::ranges::all_of(call.awaited, is_asked) && !call.awaited.empty()) continue;
    if (auto failure = detector_.check(call, now)) {
      if (failure->code == Code::peer_lost) {
        for (const int peer : detector_.silent_with(failure->blamed, now)) peers_[peer].is_silent = true;
      }
      // A rank that has passed another list of ranks reports the failure as its own call's.
      if (is_meeting(operation.spec())) failure->reason += fmt::format(" ({})", call_of(operation));
      return record_failure(std::move(*failure));
    }
    if (const std::string missing = detector_.missing_ranks(call, now); !missing.empty())
      log().warn("{}: waiting {:.0f} s for {}", call_of(operation), to_seconds(idle), missing);
  }
  const auto end = Clock::now();
  next_check_ =
      end + std::clamp<std::chrono::nanoseconds>(kRestAfterCheck * (end - now), kCheckEvery, kCheckAtLeast);
}

WaitingCall Engine::waiting_call(Operation& operation) const {
  using enum WaitingCall::Kind;
  const OperationSpec& spec = operation.spec();
  auto kind = collective;
  if (is_message(spec)) kind = name_of_message(spec) == "send" ? send : receive;
  if (operation.is_unmatched()) kind = spec.probed >= 0 ? probe : receive_from_any;
  WaitingCall call{&operation,
                   kind,
                   spec.timeout,
                   spec.team() != nullptr || operation.is_watch(),
                   {spec.group->context, in_ms(spec.timeout), spec.sequence, spec.signature},
                   spec.ranks(),
                   operation.waiting_for(),
                   operation.last_progress()};
  for (int& rank : call.awaited) rank = spec.ranks()[static_cast<std::size_t>(rank)];
  return call;
}

void Engine::send_pong(transport::Link& from, const Ping& ping) {
  Pong pong;
  pong.context = ping.context;
  pong.sequence = ping.sequence;
  const Operation* in_flight = find(ping.context, ping.sequence);
  pong.in_flight = in_flight != nullptr;
  if (const Group* group = groups_.find(ping.context)) {
    pong.last_sequence = group->last_sequence;
    pong.last_collective = group->remembered(group->last_sequence).collective;
    const transport::Signature* mine = nullptr;
    if (ping.sequence <= group->last_sequence) {
      if (ping.sequence + Group::kHistory > group->last_sequence) mine = &group->remembered(ping.sequence);
      if (in_flight != nullptr) mine = &in_flight->spec().signature;
    }
    if (mine != nullptr && !(*mine == ping.signature))
      on_disagreement(ping.sequence, *mine, from.peer(), ping.signature);
  }
  if (in_flight != nullptr) pong.last_sequence = std::max(pong.last_sequence, ping.sequence);
  const auto now = Clock::now();
  const auto end = pong.waits_for.end();
  auto next = pong.waits_for.begin();
  for (Operation& operation : active_) {
    const OperationSpec& spec = operation.spec();
    if (&operation == in_flight && !is_message(spec)) continue;
    const std::chrono::nanoseconds idle = now - operation.last_progress();
    pong.waits_ms = std::max(pong.waits_ms, in_ms(idle));
    pong.left_ms = std::min(pong.left_ms, in_ms(spec.timeout - idle));
    if (is_meeting(spec)) {
      for (const int peer : spec.ranks()) pong.meets |= peer < 32 ? 1u << peer : 0u;
    }
    if (next == end || idle < std::chrono::milliseconds(ping.timeout_ms) / 2 || operation.is_unmatched())
      continue;
    for (const int rank : operation.waiting_for()) {
      const int peer = spec.ranks()[static_cast<std::size_t>(rank)];
      if (next != end && std::find(pong.waits_for.begin(), next, peer) == next) *next++ = peer;
    }
  }
  peers_[from.peer()].send(ControlKind::pong, as_payload(pong));
}

}  // namespace kolo::engine
