#include "engine/engine.hpp"

#include <algorithm>
#include <new>

#include <fmt/format.h>

#include "base/arithmetic.hpp"
#include "base/log.hpp"
#include "engine/message_number.hpp"

namespace kolo::engine {
Engine::Engine(int rank, std::vector<std::unique_ptr<transport::Endpoint>> endpoints, EngineOptions options,
               OnDemand on_demand)
    : rank_(rank),
      options_(std::move(options)),
      is_timed_(std::ranges::any_of(options_.observers, [](const auto& o) { return o->needs_times(); })),
      peers_(rank, std::move(endpoints), std::move(on_demand), options_.hosts,
             static_cast<PeersListener&>(*this), memory_),
      detector_(rank, peers_.size(), options_.heartbeat, peers_),
      groups_(rank, peers_, *this),
      backoff_({options_.spin, options_.ranks_a_core, !peers_.has_descriptors()}),
      driver_(*this, backoff_),
      schedules_(rank, is_timed_, peers_, memory_, *this),
      shared_memory_(backoff_, groups_, driver_, peers_, *this) {
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
      if (!failure_) leave();
    } catch (const std::bad_alloc&) {  // then the peers only see that the connection has closed
    }
    driver_.notify_waiting();
  }
  if (callbacks_ != nullptr) callbacks_->stop_driving();
  driver_.join();
  peers_.deliver();
  if (callbacks_ != nullptr) callbacks_->finish();
}

std::shared_ptr<Operation> Engine::acquire(const OperationSpec& spec, bool is_timed) {
  Executor& executor = executor_of(spec);
  auto operation = executor.reuse();
  if (operation == nullptr) operation = executor.make(weak_from_this());
  operation->take(spec, is_timed);
  return operation;
}

std::shared_ptr<Operation> Engine::start(const OperationSpec& spec, bool waits_now) {
  const auto lock = driver_.enter();
  const DefaultArithmetic arithmetic;
  if (failure_) {
    auto operation = acquire(spec, true);
    operation->end(status_for(*operation, *failure_), operation->started());
    observe_error(spec);
    return operation;
  }
  if (spec.call > 0) spec.group->remember(spec.sequence, spec.signature);
  if (spec.counts) observe_begin(spec);
  Executor& executor = executor_of(spec);
  const bool is_alone = active_.empty() && driver_.is_free() && !pending_failure_;
  if (waits_now && is_alone && !is_timed_ && executor.try_immediate(spec)) return nullptr;
  auto operation = acquire(spec, !waits_now || is_timed_);
  active_.add(operation);
  ++spec.group->operations;
  if (spec.team() == nullptr) links_quiet_since_ = {};
  try {
    executor.begin(*operation, waits_now);
    if (!driver_.has_caller()) {
      if (!are_links_quiet()) peers_.write();
      propagate_failure();
    }
  } catch (const std::bad_alloc&) {
    on_no_memory();
    propagate_failure();
    return operation;
  }
  // Even an operation that is done may leave answers that had no room. A sleeping driver has not armed for
  // them.
  if (!has_work()) return operation;
  // A sleeping driver is woken by what peers publish from now on, but not by what they have published
  // already.
  if (!operation->done() || pending_failure_ || peers_.want_write()) driver_.kick();
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

std::vector<int> Engine::waiting_for(const Operation& operation) {
  const auto lock = driver_.enter();
  return operation.done() ? std::vector<int>() : operation.waiting_for();
}

bool Engine::test(const Operation& operation) {
  if (!operation.done()) driver_.poll_once();
  return operation.done();
}

bool Engine::notify(Operation& operation, Completion& completion) {
  const auto lock = driver_.enter();
  if (operation.done()) return false;
  operation.notify(completion);
  driver_.leave_to_progress_thread();
  return true;
}

void Engine::forget(Operation& operation, const Completion& completion) {
  const auto lock = driver_.enter();
  operation.forget(completion);
}

void Engine::then(std::shared_ptr<Operation> operation, Callbacks::Callback callback) {
  Callbacks::Entries entry;
  entry.push_back({nullptr, std::move(callback)});
  auto lock = driver_.enter();
  if (callbacks_ == nullptr) {
    callbacks_ = Callbacks::start([this] {
      auto held = driver_.enter();
      driver_.drive_for_callbacks(held, [this] { return callbacks_->has_news() || driver_.is_stopping(); });
    });
  }
  if (operation->done()) {
    entry.front().operation = std::move(operation);
    callbacks_->add(std::move(entry));
    driver_.kick();  // the thread of the callbacks may be the driver
    return;
  }
  operation->callbacks().splice(operation->callbacks().end(), entry);
  driver_.expect_callback();
  if (shared_memory::Team* team = operation->spec().team()) team->tell();
  lock.unlock();  // the thread that wakes up takes it
  callbacks_->expect();
}

void Engine::give_up(Operation& probe) {
  const auto lock = driver_.enter();
  if (probe.done()) return;
  schedules_.forget(probe);
  probe.end(Status(), Clock::now());
  release(probe);
}

void Engine::on_finished(Operation& operation) {
  release(operation);
}

void Engine::release(Operation& ended) {
  auto operation = active_.take(ended);
  if (operation == nullptr) return;
  --operation->spec().group->operations;
  detector_.forget(operation.get());
  observe_end(*operation);
  add_callbacks(operation);
  if (!operation->is_watch()) executor_of(operation->spec()).retire(std::move(operation));
  driver_.notify_waiting();
}

void Engine::adopt(Operation& operation, const OperationSpec& spec) {
  const auto lock = driver_.enter();
  operation.take(spec, true);
}

std::shared_ptr<Operation> Engine::watch(const OperationSpec& spec) {
  const auto lock = driver_.enter();
  auto watch = std::make_shared<Watch>(weak_from_this(), rank_);
  watch->take(spec, true);
  if (failure_) {
    watch->end(status_for(*watch, *failure_), watch->started());
    return watch;
  }
  active_.add(watch);
  ++spec.group->operations;
  links_quiet_since_ = {};
  return watch;
}

void Engine::unwatch(Operation& watch) {
  const auto lock = driver_.enter();
  release(watch);
}

void Engine::finish(const std::shared_ptr<Operation>& operation, Status status) {
  const auto lock = driver_.enter();
  if (!status.ok() && failure_) status = status_for(*operation, *failure_);
  operation->end(std::move(status), Clock::now());
  add_callbacks(operation);
  driver_.notify_waiting();
  driver_.kick();  // a thread that waits for the operation may be the driver
}

void Engine::add_callbacks(const std::shared_ptr<Operation>& ended) {
  if (ended->callbacks().empty()) return;
  for (Callbacks::Entry& entry : ended->callbacks()) entry.operation = ended;
  callbacks_->add(std::move(ended->callbacks()));
}

Group* Engine::reserve(std::uint32_t context, std::uint32_t first_slot) {
  const auto lock = driver_.enter();
  return groups_.reserve(context, first_slot);
}

void Engine::withdraw(Group& group) {
  const auto lock = driver_.enter();
  groups_.withdraw(group);
}

Group* Engine::meet(std::vector<int> peers) {
  const auto lock = driver_.enter();
  return groups_.meet(std::move(peers));
}

void Engine::open(Group& group, std::vector<int> peers) {
  const auto lock = driver_.enter();
  groups_.open(group, std::move(peers));
}

void Engine::share_memory(Group& group, int shared_cores) {
  const auto lock = driver_.enter();
  if (groups_.share_memory(group, shared_cores)) return;
  for (const auto& observer : options_.observers) observer->found_no_slot();
  if (group.peers.front() != rank_ || std::exchange(has_told_of_slots_, true)) return;
  log().warn(
      "{} communicators use all slots of the shared memory: calls of one more, and of those that follow, are "
      "messages and take longer; a communicator that is destroyed gives its slot back",
      shared_memory::kCommSlots);
}

void Engine::close(Group& group) {
  const auto lock = driver_.enter();
  groups_.close(group);
}

Operation* Engine::find(std::uint32_t context, std::uint64_t sequence) {
  for (Operation& operation : active_) {
    if (operation.spec().group->context == context && operation.spec().sequence == sequence)
      return &operation;
  }
  return nullptr;
}

/// For a message this rank is the receiver, because the receiver finds the mismatch.
void Engine::on_disagreement(std::uint64_t number, const transport::Signature& mine, int peer,
                             const transport::Signature& theirs) {
  const std::string ours = options_.describe(mine), other = options_.describe(theirs);
  if (const auto message = MessageNumber::from_sequence(number)) {
    record_failure(
        {Code::mismatch, peer,
         fmt::format("ranks disagree about message {} with tag {}: rank {} called send({}) to rank "
                     "{}, rank {} called recv({}) from rank {}{}",
                     message->index + std::uint64_t{1}, message->tag, peer, other, rank_, rank_, ours, peer,
                     ours == other ? "; what differs is KOLO_SEGMENT_BYTES" : "")});
    return;
  }
  const std::string_view hidden = ours == other
                                      ? "; what differs is uneven counts, the lengths of a batch's calls, an "
                                        "algorithm's arguments, the name of a reduction of "
                                        "your own, or KOLO_SEGMENT_BYTES"
                                      : "";
  record_failure({Code::mismatch, peer,
                  fmt::format("ranks disagree about call {}: rank {} called {}, rank {} called {}{}", number,
                              rank_, ours, peer, other, hidden)});
}

void Engine::on_mismatch(transport::Link& from, const transport::Tag& tag, const transport::Signature& mine,
                         const transport::Signature& theirs) {
  on_disagreement(tag.sequence, mine, from.peer(), theirs);
}

void Engine::on_unexpected(transport::Link& from, const transport::Tag& tag,
                           const transport::Signature& theirs) {
  peers_.note_unexpected();
  const Group* group = groups_.find(tag.context);
  if (group == nullptr || tag.sequence > group->last_sequence) return;  // an early message, or point to point
  const Operation* operation = find(tag.context, tag.sequence);
  const transport::Signature& mine =
      operation != nullptr ? operation->spec().signature : group->remembered(tag.sequence);
  if (operation == nullptr || !(theirs == mine)) on_mismatch(from, tag, mine, theirs);
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
      if (!payload.empty()) peers_[from.peer()].loss = decode_failure(payload);
      return;
    case ControlKind::alive:
      return;  // its bytes are the sign
    case ControlKind::recovery:
      mailbox_.add(from.peer(), payload);
      return;
  }
  log().warn("rank {} sent a control message of unknown kind {}", from.peer(), kind);
}

}  // namespace kolo::engine
