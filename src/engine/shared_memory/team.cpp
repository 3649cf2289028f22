#include "engine/shared_memory/team.hpp"

#include <algorithm>
#include <chrono>
#include <thread>

#include "base/deadline.hpp"
#include "engine/executor.hpp"

namespace kolo::engine::shared_memory {
namespace {

/// A running rank ends a piece of writing in microseconds, but on a busy machine it may wait for a core.
constexpr auto kLongestPiece = std::chrono::milliseconds(100);

constexpr int kIdlePolls = 8;

}  // namespace

Team::Team(int rank, std::vector<transport::LocalPeer*> local_peers, std::uint32_t slot, int shared_cores,
           ExecutorListener& listener)
    : rank_(rank),
      arrival_(shared_cores > 0
                   ? Arrival::of_shared_cores(rank, static_cast<int>(local_peers.size()), shared_cores)
                   : std::make_unique<Arrival>()),
      local_peers_(std::move(local_peers)),
      listener_(listener),
      rung_(local_peers_.size(), 0) {
  for (transport::LocalPeer* local_peer : local_peers_) {
    if (local_peer != nullptr) segment_ = &Segment::in(local_peer->own_segment());
  }
  slot_ = &segment_->slots[slot];
  for (transport::LocalPeer* local_peer : local_peers_) {
    segments_.push_back(local_peer == nullptr ? segment_ : &Segment::in(local_peer->segment()));
    slots_.push_back(&segments_.back()->slots[slot]);
  }
  for (Running& running : running_) {
    Call& call = running.call;
    call.rank = rank_;
    call.size = size();
    call.slots = slots_;
    call.segments = segments_;
    call.segment = segment_;
    call.slot = slot_;
    call.pieces = &pieces_;
    call.done = &done_;
    call.published = &published_;
  }
}

void Team::begin_immediate(const OperationSpec& spec) {
  announce(spec, false);
  has_immediate_ = true;
}

bool Team::try_immediate() {
  Running& first = running(finished_);
  bool moved = false;
  const bool is_over = step(first, nullptr, moved);
  stop_writing();
  if (is_over) {
    ++finished_;
    has_immediate_ = false;
  }
  if (moved || is_over || ++idle_polls_ > kIdlePolls) tell();
  return is_over;
}

void Team::begin(Operation& operation, bool waits_now) {
  const bool behind_others = !waits_now && !calls_.empty();
  calls_.push_back({&operation, behind_others});
  if (std::exchange(has_immediate_, false)) {
    running(finished_).call.listed = operation.spec().listed;  // what begin_immediate() saw is the caller's
  } else if (!behind_others) {
    announce_more();
  }
}

void Team::announce_more() {
  while (announced_ < finished_ + calls_.size() && announced_ < finished_ + kCallsAhead) {
    const Begun& next = calls_[announced_ - finished_];
    announce(next.operation->spec(), next.behind_others);
  }
}

bool Team::advance() {
  bool moved = false;
  now_ = {};
  if (!failed_) announce_more();
  while (!calls_.empty() && finished_ < announced_ && !failed_ &&
         step(running(finished_), calls_.front().operation, moved)) {
    Operation& operation = *calls_.front().operation;
    calls_.pop_front();
    ++finished_;
    if (settled_ > 0) --settled_;
    moved = true;
    if (segment_->core.load(std::memory_order_relaxed) % 2 != 0)
      segment_->publish_core();  // the wait is over
    publish_done();              // first: once the caller sees the end of the call, it may end this process
    operation.succeed(operation.is_timed() ? now() : operation.started());
    listener_.on_finished(operation);
  }
  if (!failed_) announce_more();
  while (settled_ < announced_ - finished_ && !failed_) {
    Running& next = running(finished_ + settled_);
    if (settled_ > 0) step(next, calls_[settled_].operation, moved);
    if (!next.is_settled()) break;
    ++settled_;
  }
  publish_done();
  stop_writing();
  // tell() takes until all ranks can see what was published. A rank that answers within that time is awake,
  // and its answer is found sooner without tell().
  if (moved || ++idle_polls_ > kIdlePolls) tell();
  return moved;
}

/// See Segment::writing. Relaxed: this rank alone stores there, under the engine's lock. The same is
/// true in publish_done().
void Team::stop_writing() {
  if (segment_->writing.load(std::memory_order_relaxed) != 0)
    segment_->writing.store(0, std::memory_order_release);
}

/// Publishes the ends of the calls that one rank does for all ranks, once for all calls of this poll.
void Team::publish_done() {
  if (done_ <= slot_->done.value.load(std::memory_order_relaxed)) return;
  slot_->done.value.store(done_, std::memory_order_release);
  published_.changed = true;
}

/// Does what can be done for a call. Returns whether it has finished. Without an operation, an error waits
/// until there is one that can fail.
bool Team::step(Running& running, Operation* operation, bool& moved) {
  Call& call = running.call;
  if (running.state == Running::State::finished) return true;
  if (running.state == Running::State::announced) {
    if (!is_agreed(running, operation, moved)) return false;
    moved = true;
    if (is_short(running)) {
      arrival_->finish_short(running);
      running.state = Running::State::finished;
      return true;
    }
    arrival_->divide(running);
    if (!reach_memory(running, operation)) return false;
    begin_algorithm(running);
  }
  while (true) {
    const bool done = running.task.done();
    const bool waits = !done && running.lacking().number != nullptr;
    // A rank may have begun the call before it knows that all have made the same one. While it waits, it
    // polls for that too, unless ranks share cores: see Arrival.
    const bool polls = !waits || running.works_for_all || call.counters == nullptr;
    if (polls && !running.is_agreed && !is_agreed(running, operation, moved)) return false;
    if (waits) return false;
    // If this rank was stopped, it may have read what its peers wrote after they had given up, and memory
    // that they have freed may no longer be mapped. A rank that finishes a share has checked that.
    if (!call.inputs.empty() && !running.is_shared_out() && call.is_given_up()) return false;
    if (done) break;
    const bool was_pause = running.task.wait().is_pause();
    running.task.resume();
    if (running.shown > kDescriptorBytes) {
      now_ = {};
      stop_writing();
    }
    moved = true;
    if (running.task.done()) continue;
    if (operation != nullptr) operation->touch(Clock::now());
    if (was_pause) return false;
  }
  if (!is_still_shared(running)) {
    fail(operation, rank_, "its shared memory was given up by another communicator");
    return false;
  }
  running.state = Running::State::finished;
  running.task = {};
  return true;
}

void Team::begin_algorithm(Running& running) {
  Call& call = running.call;
  if (call.owner < 0) publish_done();  // it may take long
  call.number = ++long_calls_;
  running.state = Running::State::begun;
  const bool is_staged = call.inputs.empty() && call.owner < 0 && call.shares == 0;
  if (is_staged && call.shape->shown_bytes(rank_) > 0)
    prefault_pieces(std::min(call.piece_bytes(), call.shape->shown_bytes(rank_)));
  running.task = run(call);
  running.task.resume();
}

void Team::fail(Operation* operation, int rank, const std::string& why) {
  if (operation == nullptr) return;
  failed_ = true;
  listener_.on_failure(operation->spec().ranks()[static_cast<std::size_t>(rank)], why);
}

void Team::close() {
  failed_ = true;
  segment_->closed.store(1, std::memory_order_seq_cst);
  // Orders `closed` before anything that the caller writes after this. A reader that sees some of that also
  // sees `closed`, after the fence of Call::is_given_up().
  std::atomic_thread_fence(std::memory_order_seq_cst);
}

void Team::release(const std::vector<bool>& lost) {
  const auto deadline = Deadline::after(kLongestPiece);
  bool all_stopped = announced_ == finished_;  // else a rank may write for a call that is not queued here yet
  while (!all_stopped) {
    all_stopped = true;
    for (std::size_t r = 0; r < segments_.size(); ++r) {
      if (!lost[r] && segments_[r]->writing.load(std::memory_order_seq_cst) != 0) all_stopped = false;
    }
    if (all_stopped || deadline.passed()) break;
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
  if (!all_stopped) {
    // Other ranks may be ahead of this rank, in any call that it has announced.
    for (std::uint64_t at = finished_; at < announced_; ++at) {
      const Call& call = running(at).call;
      if (running(at).shown > arrival_->always_short && call.shape->form.writes_to_others())
        transport::detach_shared_memory(call.output, call.shape->bytes());
    }
  }
  for (Running& running : running_) running.task = {};
  calls_.clear();
}

}  // namespace kolo::engine::shared_memory
