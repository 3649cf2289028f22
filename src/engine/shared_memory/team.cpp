#include "engine/shared_memory/team.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <thread>

#include "base/deadline.hpp"
#include "engine/executor.hpp"

namespace kolo::engine::shared_memory {
namespace {

/// A running rank ends a piece of writing in microseconds, but on a busy machine it may wait for a core.
constexpr auto kLongestPiece = std::chrono::milliseconds(100);

constexpr int kIdlePolls = 8;

/// The longest call that one rank sums for all when several are under way: see Team::owner_of().
constexpr std::uint64_t kTurnBytes = 64 << 10;

/// The longest call that running ranks do for ranks that wait for a core: see Team::shares(). The sums of
/// longer calls take longer than the wait for a core.
constexpr std::uint64_t kSharesBytes = 1 << 20;

}  // namespace

Team::Team(int rank, std::vector<transport::LocalPeer*> local_peers, std::uint32_t slot, int shared_cores,
           ExecutorListener& listener)
    : rank_(rank),
      shared_cores_(shared_cores),
      few_sum_(shared_cores > 0 && do_few_sum(static_cast<int>(local_peers.size()), shared_cores)),
      sums_(!few_sum_ || is_summing_rank(rank, static_cast<int>(local_peers.size()), shared_cores)),
      always_short_(shared_cores > 0 ? kDescriptorBytes : kShortBytes),
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
    if (shared_cores_ == 0) continue;
    call.piece_counters = slots_.front()->piece_shares;
    call.cores = shared_cores_;
    call.sums = sums_;
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
  if (!std::exchange(has_immediate_, false) && !behind_others) announce_more();
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
    publish_done();  // first: once the caller sees the end of the call, it may end this process
    operation.end(Status(), operation.is_timed() ? now() : operation.started());
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
  changed_ = true;
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
      finish_short_call(running);
      running.state = Running::State::finished;
      return true;
    }
    call.owner = owner_of(running);
    call.shares = shares(running);
    if (!reach_memory(running, operation)) return false;
    begin_algorithm(running);
  }
  while (true) {
    collect_changes(call);
    const bool done = running.task.done();
    const bool waits = !done && !has_come(running.task.wait());
    // Ranks that share cores may have begun the call before they know that all have made the same one.
    if (!running.is_agreed && (!waits || running.works_for_all) && !is_agreed(running, operation, moved))
      return false;
    if (waits) return false;
    // If this rank was stopped, it may have read what its peers wrote after they had given up, and memory
    // that they have freed may no longer be mapped. A rank that finishes a share has checked that.
    if (!call.inputs.empty() && !is_shared_out(running) && call.is_given_up()) return false;
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

void Team::collect_changes(Call& call) {
  changed_ = std::exchange(call.changed, false) || changed_;
  has_opened_ = std::exchange(call.has_opened, false) || has_opened_;
}

/// The rank that does this call for all ranks; -1: each rank does its slice. If all ranks have started short
/// calls in a row, each rank does some for all, a few consecutive ones at a time. Ranks that share every one
/// of them read and write in the same pages at the same time, where their prefetchers take lines from each
/// other: 200 calls of 4 KiB took three times as long. -1 also if a rank waited for just this call when it
/// made it. All ranks get the same result, because all see the same descriptors.
int Team::owner_of(const Running& running) const {
  if (running.shown > kTurnBytes || shared_cores_ > 0) return -1;
  for (const CommSlot* slot : slots_) {
    // Relaxed: poll_descriptors() has acquired it.
    const std::uint64_t number =
        slot->descriptors[running.place % kDescriptors].number.load(std::memory_order_relaxed);
    if ((number & CallDescriptor::kBehindOthers) == 0) return -1;
  }
  const auto ranks = static_cast<std::uint64_t>(size());
  const std::uint64_t in_a_row = std::max<std::uint64_t>(kCallsAhead / ranks, 1);
  return static_cast<int>(running.place / in_a_row % ranks);
}

/// Number of shares of a call of ranks that share cores: a running rank takes the next one. 0: each rank does
/// its slice. The same on all ranks.
std::uint64_t Team::shares(const Running& running) const {
  const Call& call = running.call;
  const bool is_cut = shared_cores_ > 0 && call.shape->form.writes_to_others() &&
                      running.shown <= kSharesBytes && is_named(running);
  return is_cut ? share_count(running.shown) : 0;
}

void Team::begin_algorithm(Running& running) {
  Call& call = running.call;
  if (call.owner < 0) publish_done();  // it may take long
  call.place = running.place;
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

bool Team::has_come(const Wait& wait) const {
  if (wait.common != nullptr)
    return wait.common->finished.load(std::memory_order_acquire) >= wait.common_target;
  if (wait.counter == nullptr) return true;
  for (int r = 0; r < size(); ++r) {
    if (r == rank_) continue;
    const CommSlot& slot = *slots_[static_cast<std::size_t>(r)];
    if ((slot.*wait.counter).value.load(std::memory_order_acquire) < wait.target) return false;
  }
  return true;
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
      if (running(at).shown > always_short_ && call.shape->form.writes_to_others())
        transport::detach_shared_memory(call.output, call.shape->bytes());
    }
  }
  for (Running& running : running_) running.task = {};
  calls_.clear();
}

}  // namespace kolo::engine::shared_memory
