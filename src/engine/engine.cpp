#include "engine/engine.hpp"

#include <algorithm>
#include <new>

#include <fmt/format.h>

#include "base/log.hpp"
#include "engine/arithmetic.hpp"
#include "engine/message_number.hpp"
#include "engine/relax.hpp"

namespace kolo::engine {
namespace {

// Polls before an operation is left to wait(): some two microseconds, or turns of the other ranks on this
// core.
constexpr int kInitialPolls = 100;
constexpr int kInitialPollsOversubscribed = 20;
constexpr int kEagerPolls = 10;
constexpr std::uint64_t kImmediateBytes = 256 << 10;  // sums of this size take some microseconds

}  // namespace

Engine::Engine(int rank, std::vector<std::unique_ptr<transport::Endpoint>> endpoints, EngineOptions options,
               OnDemand on_demand)
    : rank_(rank),
      options_(std::move(options)),
      is_timed_(std::ranges::any_of(options_.observers, [](const auto& o) { return o->needs_times(); })),
      peers_(rank, std::move(endpoints), std::move(on_demand), options_.hosts,
             static_cast<PeersListener&>(*this), memory_),
      detector_(rank, peers_.size(), options_.timeout, options_.heartbeat, peers_),
      groups_(rank, peers_, static_cast<native::GroupListener&>(*this)),
      driver_(*this, {options_.spin, options_.oversubscribed, !peers_.has_descriptors()}),
      last_check_(Clock::now()) {
  driver_.start();
}

std::shared_ptr<Engine> Engine::make(int rank, std::vector<std::unique_ptr<transport::Endpoint>> endpoints,
                                     EngineOptions options, OnDemand on_demand) {
  const auto destroy = [](Engine* engine) {
    if (engine->is_here()) delete engine;
  };
  return {new Engine(rank, std::move(endpoints), std::move(options), std::move(on_demand)), destroy};
}

Engine::~Engine() {
  {
    const auto lock = driver_.enter();
    driver_.stop();
    try {
      if (!failure_) {
        if (!active_.empty())
          record_failure({Code::peer_lost, rank_, fmt::format("rank {} destroyed its communicator", rank_)});
        propagate_failure();
        for (const auto& peer : peers_.all()) peer->send(ControlKind::goodbye, {});
      }
    } catch (const std::bad_alloc&) {  // then the peers only see that the connection has closed
    }
  }
  driver_.join();
  peers_.deliver();
}

std::shared_ptr<Operation> Engine::acquire(const OperationSpec& spec) {
  Pool& pool = pool_of(spec);
  constexpr std::size_t kLooks = 8;
  for (std::size_t look = 0; look < std::min(kLooks, pool.size()); ++look) {
    const bool is_free = pool.front().use_count() == 1;  // else a caller still holds its Work
    // A copy, not a move: only the count orders this thread behind the one that dropped the last Work.
    auto operation = pool.front();
    pool.pop_front();
    if (is_free) return operation;
    pool.push_back(std::move(operation));
  }
  if (spec.native() != nullptr) return std::make_shared<NativeOperation>(weak_from_this());
  return std::make_shared<ScheduleOperation>(*this, weak_from_this());
}

std::shared_ptr<Operation> Engine::start(const OperationSpec& spec, bool waits_now) {
  const auto lock = driver_.enter();
  const DefaultArithmetic arithmetic;
  if (failure_) {
    auto operation = acquire(spec);
    operation->take(spec);
    operation->started_ = operation->last_progress_ = Clock::now();
    operation->end(status_for(*operation, *failure_), operation->started_);
    observe_error(spec);
    return operation;
  }
  if (spec.call > 0) {
    spec.group->remember(spec.sequence, spec.signature);
    if (spec.native() == nullptr) check_unexpected_messages(spec);
  }
  if (spec.counts) observe_begin(spec);
  if (waits_now && try_immediate(spec)) return nullptr;
  auto operation = acquire(spec);
  const bool is_native = spec.native() != nullptr;
  operation->take(spec);
  if (spec.source >= 0) number_receive(*operation);
  if (!is_native) add(operation);
  try {
    operation->begin(waits_now, !waits_now || is_timed_);
    if (spec.source == kAnySource) find_sender(static_cast<ScheduleOperation&>(*operation));
    if (is_native) {
      run_native(*operation, waits_now);
      if (operation->done()) {
        retire(operation);  // many native calls are over by now
      } else {
        add(operation);
      }
    } else if (operation->done()) {
      operation_finished(*operation);
    }
    if (!driver_.has_caller()) {
      peers_.write();
      propagate_failure();
    }
  } catch (const std::bad_alloc&) {
    const bool is_listed = std::ranges::find(active_, operation) != active_.end();
    if (!is_listed && !operation->done()) add(operation);
    note_no_memory();
    propagate_failure();
    return operation;
  }
  // Even an operation that is done may leave answers that had no room. A sleeping driver has not armed for
  // them.
  if (!has_work()) return operation;
  // A sleeping driver is woken by what peers publish from now on, but not by what they have published
  // already.
  const bool is_its_concern = !is_native || !operation->done();
  if (is_its_concern) driver_.kick();
  if (!waits_now || operation->done()) driver_.leave_to_progress_thread();
  return operation;
}

bool Engine::wait(const Operation& operation, const Deadline& deadline) {
  if (operation.done()) return true;
  auto lock = driver_.enter();
  return driver_.run_until(lock, deadline, [&] { return operation.done(); });
}

bool Engine::wait_any(std::span<const Operation* const> operations, const Deadline& deadline) {
  auto lock = driver_.enter();
  return driver_.run_until(lock, deadline, [&] {
    return std::ranges::any_of(operations, [](const Operation* operation) { return operation->done(); });
  });
}

bool Engine::test(const Operation& operation) {
  if (!operation.done()) driver_.poll_once();
  return operation.done();
}

bool Engine::notify(Operation& operation, Completion& completion) {
  const auto lock = driver_.enter();
  if (operation.done()) return false;
  operation.completions_.push_back(&completion);
  driver_.leave_to_progress_thread();
  return true;
}

void Engine::forget(Operation& operation, const Completion& completion) {
  const auto lock = driver_.enter();
  std::erase(operation.completions_, &completion);
}

/// Polls up to `polls` times, until a poll returns true; returns whether one did. Stops early if another
/// thread wants the lock. Ranks that share a core take turns on it and find their caches cold, so between two
/// polls they only read the number that they wait for.
template <typename Poll>
bool Engine::poll_until(const native::Group& group, int polls, Poll once) {
  native::Awaited awaited;
  for (int i = 0; i < polls; ++i) {
    if (options_.oversubscribed && i > 0) std::this_thread::yield();
    if (!options_.oversubscribed && i > kEagerPolls) relax();
    if (driver_.is_wanted()) return false;
    if (!awaited.has_changed()) continue;
    if (once()) return true;
    if (options_.oversubscribed) awaited = group.awaited();
  }
  return false;
}

/// The peers are often about to make the same call. A call that is not long may then be over before an
/// operation could be set up for it.
bool Engine::try_immediate(const OperationSpec& spec) {
  if (spec.native() == nullptr || spec.prepared->shape.most_shown > kImmediateBytes) return false;
  if (!active_.empty() || !driver_.is_free() || pending_failure_ || is_timed_) return false;
  native::Group& group = *spec.native();
  group.begin_immediate(spec);
  return poll_until(group, options_.oversubscribed ? kInitialPollsOversubscribed : kInitialPolls,
                    [&] { return group.try_immediate(); });
}

/// Many calls are over so soon that reading a clock is not worth its cost.
void Engine::run_native(Operation& operation, bool waits_now) {
  native::Group& group = *operation.spec().native();
  int polls = options_.oversubscribed ? kInitialPollsOversubscribed : kInitialPolls;
  if (!waits_now || !driver_.is_free()) polls = 1;
  if (!waits_now && !group.wants_poll()) polls = 0;
  poll_until(group, polls, [&] {
    group.advance();
    return operation.done() || pending_failure_.has_value();
  });
  if (operation.done()) return;
  if (waits_now) group.tell();  // else the progress thread does, once the caller has started all its calls
  operation.start_clock();
  check_unexpected_messages(operation.spec());
}

void Engine::add(std::shared_ptr<Operation> operation) {
  Group& group = *operation->spec().group;
  active_.push_back(std::move(operation));
  ++group.operations;
}

void Engine::operation_finished(Operation& operation) {
  if (!operation.done()) operation.end(Status(), operation.time_of_end());
  const auto it =
      std::find_if(active_.begin(), active_.end(), [&](const auto& a) { return a.get() == &operation; });
  if (it != active_.end()) release(static_cast<std::size_t>(it - active_.begin()));
}

void Engine::release(std::size_t active_index) {
  auto operation = std::move(active_[active_index]);
  active_.erase(active_index);
  --operation->spec().group->operations;
  detector_.forget(operation.get());
  retire(std::move(operation));
}

void Engine::retire(std::shared_ptr<Operation> operation) {
  observe_end(*operation);
  operation->give_back_memory();
  constexpr std::size_t kPool = 256;
  if (Pool& pool = pool_of(operation->spec()); pool.size() < kPool) pool.push_back(std::move(operation));
  driver_.notify_waiting();
}

Group* Engine::reserve(std::uint32_t context, std::uint32_t first_slot) {
  const auto lock = driver_.enter();
  return groups_.reserve(context, first_slot);
}

void Engine::withdraw(Group& group) {
  const auto lock = driver_.enter();
  groups_.withdraw(group);
}

void Engine::open(Group& group, std::vector<int> peers) {
  const auto lock = driver_.enter();
  groups_.open(group, std::move(peers));
}

void Engine::share_memory(Group& group, int shared_cores) {
  const auto lock = driver_.enter();
  groups_.share_memory(group, shared_cores);
}

void Engine::close(Group& group) {
  const auto lock = driver_.enter();
  groups_.close(group);
}

Operation* Engine::find(std::uint32_t context, std::uint64_t sequence) {
  for (const auto& operation : active_) {
    if (operation->spec().group->context == context && operation->spec().sequence == sequence)
      return operation.get();
  }
  return nullptr;
}

void Engine::check_unexpected_messages(const OperationSpec& spec) {
  for (const int peer : spec.ranks()) {
    transport::Link& from = link(peer);
    from.for_each_unexpected([&](const transport::Tag& tag, const transport::Signature& theirs) {
      if (tag.context == spec.group->context && tag.sequence == spec.sequence &&
          !(theirs == spec.signature)) {
        on_mismatch(from, tag, spec.signature, theirs);
      }
    });
  }
}

/// For a message this rank is the receiver, because the receiver finds the mismatch.
void Engine::disagree(std::uint64_t sequence, const transport::Signature& mine, int peer,
                      const transport::Signature& theirs) {
  const std::string ours = options_.describe(mine), other = options_.describe(theirs);
  if (const auto message = MessageNumber::from_sequence(sequence)) {
    record_failure(
        {Code::mismatch, peer,
         fmt::format("ranks disagree about message {} with tag {}: rank {} called send({}) to rank "
                     "{}, rank {} called recv({}) from rank {}{}",
                     message->index + std::uint64_t{1}, message->tag, peer, other, rank_, rank_, ours, peer,
                     ours == other ? "; what differs is KOLO_SEGMENT_BYTES" : "")});
    return;
  }
  const std::string_view hidden =
      ours == other ? "; what differs is uneven counts, an algorithm's arguments, the name of a reduction of "
                      "your own, or KOLO_SEGMENT_BYTES"
                    : "";
  record_failure({Code::mismatch, peer,
                  fmt::format("ranks disagree about call {}: rank {} called {}, rank {} called {}{}",
                              sequence, rank_, ours, peer, other, hidden)});
}

void Engine::on_mismatch(transport::Link& from, const transport::Tag& tag, const transport::Signature& mine,
                         const transport::Signature& theirs) {
  disagree(tag.sequence, mine, from.peer(), theirs);
}

void Engine::on_unexpected(transport::Link& from, const transport::Tag& tag,
                           const transport::Signature& theirs) {
  if (const Operation* operation = find(tag.context, tag.sequence)) {
    // Point-to-point messages are numbered for each pair and direction: this operation may belong to another
    // pair.
    const OperationSpec& spec = operation->spec();
    if (spec.call > 0 && !(theirs == spec.signature)) on_mismatch(from, tag, spec.signature, theirs);
    return;
  }
  const Group* group = groups_.find(tag.context);
  if (group == nullptr || tag.sequence > group->last_sequence) return;  // an early message, or point to point
  on_mismatch(from, tag, group->remembered(tag.sequence), theirs);
}

void Engine::on_native_progress(Operation& operation) {
  operation.last_progress_ = Clock::now();
}

void Engine::on_native_finished(Operation& operation) {
  operation.end(Status(), operation.is_timed_ ? operation.spec().native()->now() : operation.started_);
  operation_finished(operation);
}

void Engine::on_native_mismatch(const Operation& operation, int rank, const transport::Signature& theirs) {
  const OperationSpec& spec = operation.spec();
  disagree(spec.call, spec.signature, spec.ranks()[static_cast<std::size_t>(rank)], theirs);
}

void Engine::on_native_failure(const Operation& operation, int rank, const Status& status) {
  const int blamed = operation.spec().ranks()[static_cast<std::size_t>(rank)];
  record_failure({status.code(), blamed, fmt::format("{}: {}", peers_.name_of(blamed), status.message())});
}

void Engine::on_control(transport::Link& from, std::uint32_t kind, std::span<const std::byte> payload) {
  switch (static_cast<ControlKind>(kind)) {
    case ControlKind::abort:
      if (auto failure = decode_failure(payload)) record_failure(std::move(*failure), true);
      return;
    case ControlKind::ping:
      if (const auto ping = from_payload<Ping>(payload)) send_pong(from, *ping);
      return;
    case ControlKind::pong:
      if (const auto pong = from_payload<Pong>(payload)) detector_.on_pong(from.peer(), *pong, Clock::now());
      return;
    case ControlKind::goodbye:
      peers_[from.peer()].has_left = true;
      return;
    case ControlKind::recovery:
      mailbox_.add(from.peer(), payload);
      return;
  }
  log().warn("rank {} sent a control message of unknown kind {}", from.peer(), kind);
}

}  // namespace kolo::engine
