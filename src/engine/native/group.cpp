#include "engine/native/group.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <thread>

#include "base/deadline.hpp"
#include "engine/operation.hpp"

namespace kolo::engine::native {
namespace {

/// A running rank ends a piece of writing in microseconds, but on a busy machine it may wait for a core.
constexpr auto kLongestPiece = std::chrono::milliseconds(100);

constexpr int kIdlePolls = 8;

/// The longest call that one rank sums for all when several are under way: see Group::owner_of().
constexpr std::uint64_t kTurnBytes = 64 << 10;

/// The longest call that running ranks do for ranks that wait for a core: see Group::shares(). The sums of
/// longer calls take longer than the wait for a core.
constexpr std::uint64_t kSharesBytes = 1 << 20;

/// The call's place in the slot and, as far as it fits, its number in the communicator. Ranks that have made
/// the same calls agree on both.
std::uint64_t note_number(std::uint64_t place, std::uint64_t call) {
  return (call << 32 | ((place + 1) & 0xffffffff)) & ~transport::CallDescriptor::kBehindOthers;
}

bool same_place(std::uint64_t one, std::uint64_t other) {
  return static_cast<std::uint32_t>(one) == static_cast<std::uint32_t>(other);
}

/// Where a rank puts its contribution: in its descriptor, if it fits and the descriptor holds no ranges; else
/// in the slot.
template <typename AnySlot>
auto* content_of(AnySlot& slot, const Running& running, std::uint64_t bytes) {
  const bool fits = bytes <= transport::CallDescriptor::kInline && running.shown <= transport::kShortBytes;
  return fits ? slot.descriptors[running.place % transport::kDescriptors].content
              : slot.data[running.place % transport::kDescriptors];
}

}  // namespace

Group::Group(int rank, std::vector<transport::LocalPeer*> local_peers, std::uint32_t slot,
             GroupListener& listener)
    : rank_(rank), local_peers_(std::move(local_peers)), listener_(listener), rung_(local_peers_.size(), 0) {
  for (transport::LocalPeer* local_peer : local_peers_) {
    if (local_peer != nullptr) segment_ = &local_peer->own_segment();
  }
  slot_ = &segment_->slots[slot];
  for (transport::LocalPeer* local_peer : local_peers_) {
    segments_.push_back(local_peer == nullptr ? segment_ : &local_peer->segment());
    slots_.push_back(&segments_.back()->slots[slot]);
  }
}

void Group::begin_immediate(const OperationSpec& spec) {
  announce(spec, false);
  has_immediate_ = true;
}

bool Group::try_immediate() {
  Running& first = running(finished_);
  bool moved = false;
  bool is_over = false;
  if (first.shown > transport::kShortBytes) {
    is_over = step(first, nullptr, moved);
    stop_writing();
  } else if (poll_descriptors(first) == Announced::by_all) {
    finish_short_call(first);
    is_over = true;
  }
  if (is_over) {
    ++finished_;
    has_immediate_ = false;
  }
  if (moved || is_over || ++idle_polls_ > kIdlePolls) tell();
  return is_over;
}

void Group::begin(Operation& operation, bool waits_now) {
  const bool behind_others = !waits_now && !calls_.empty();
  calls_.push_back({&operation, behind_others});
  if (!std::exchange(has_immediate_, false) && !behind_others) announce_more();
}

void Group::announce_more() {
  while (announced_ < finished_ + calls_.size() && announced_ < finished_ + transport::kCallsAhead) {
    const Begun& next = calls_[announced_ - finished_];
    announce(next.operation->spec(), next.behind_others);
  }
}

void Group::announce(const OperationSpec& spec, bool behind_others) {
  if (finished_ == announced_) first_ = announced_;  // calls made one at a time stay in the nearest cache
  Running& running = this->running(announced_);
  running.state = Running::State::announced;
  running.place = announced_++;
  running.number = note_number(running.place, spec.call);
  running.shown = spec.prepared->shape.most_shown;
  running.losses = transport::shared_memory_losses();
  running.announced_ranks = 0;
  Call& call = running.call;
  call.shape = &spec.prepared->shape;
  call.rank = rank_;
  call.size = size();
  call.input = static_cast<const std::byte*>(spec.input);
  call.output = static_cast<std::byte*>(spec.output);
  call.fold = call.shape->form.reduces() ? kernels::fold_function(spec.dtype, spec.reduction.op()) : nullptr;
  transport::CallDescriptor& descriptor = slot_->descriptors[running.place % transport::kDescriptors];
  descriptor.signature = spec.signature;
  running.signature = spec.signature;  // a copy to compare with: other cores have the descriptor's line
  const std::uint64_t bytes = call.shape->shown_bytes(rank_);
  bool is_shared = false;
  if (running.shown > transport::kShortBytes) {
    // All local peers use one name. Memory that cannot be shared with one of them counts as private.
    const auto name = [&](const void* data, std::uint64_t length) {
      std::optional<transport::RemoteRange> range;
      for (transport::LocalPeer* local_peer : local_peers_) {
        if (local_peer == nullptr) continue;
        range = local_peer->share(data, length);
        if (!range) return transport::RemoteRange{};
      }
      return *range;
    };
    descriptor.memory[0] = descriptor.memory[1] =
        bytes > 0 ? name(call.input, bytes) : transport::RemoteRange{};
    if (call.shape->form.writes_to_others() && call.output != call.input)
      descriptor.memory[1] = name(call.output, bytes);
    is_shared = descriptor.memory[0].region != 0 && descriptor.memory[1].region != 0;
    if (!is_shared) descriptor.memory[0] = descriptor.memory[1] = {};
  }
  if (bytes > 0 && bytes <= transport::kDescriptorBytes && !is_shared) {
    std::byte* content = content_of(*slot_, running, bytes);
    if (bytes > transport::kShortBytes && size() > 2) {
      kernels::copy_for_others(content, call.input, bytes);
    } else {
      std::memcpy(content, call.input, bytes);
    }
  }
  descriptor.number.store(running.number | (behind_others ? transport::CallDescriptor::kBehindOthers : 0),
                          std::memory_order_release);
  changed_ = true;
}

bool Group::advance() {
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
    listener_.on_native_finished(operation);
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

/// See SharedSegment::writing. Relaxed: this rank alone stores there, under the engine's lock. The same is
/// true in publish_done().
void Group::stop_writing() {
  if (segment_->writing.load(std::memory_order_relaxed) != 0)
    segment_->writing.store(0, std::memory_order_release);
}

/// Publishes the ends of the calls that one rank does for all ranks, once for all calls of this poll.
void Group::publish_done() {
  if (done_ <= slot_->done.value.load(std::memory_order_relaxed)) return;
  slot_->done.value.store(done_, std::memory_order_release);
  changed_ = true;
}

/// Does what can be done for a call. Returns whether it has finished. Without an operation, an error waits
/// until there is one that can fail.
bool Group::step(Running& running, Operation* operation, bool& moved) {
  Call& call = running.call;
  if (running.state == Running::State::finished) return true;
  if (running.state == Running::State::announced) {
    const int announced = running.announced_ranks;
    if (const Announced found = poll_descriptors(running); found != Announced::by_all) {
      moved = moved || running.announced_ranks > announced;
      if (found == Announced::not_yet || operation == nullptr) return false;
      failed_ = true;
      const transport::CommSlot& theirs = *slots_[static_cast<std::size_t>(running.announced_ranks)];
      listener_.on_native_mismatch(*operation, running.announced_ranks,
                                   theirs.descriptors[running.place % transport::kDescriptors].signature);
      return false;
    }
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
    changed_ = std::exchange(call.changed, false) || changed_;
    const bool done = running.task.done();
    if (!done && !has_come(running.task.wait())) return false;
    // If this rank was stopped, it may have read what its peers wrote after they had given up, and memory
    // that they have freed may no longer be mapped. A rank that finishes a share has checked that.
    if (!call.inputs.empty() && !is_shared_out(running) && call.is_given_up()) return false;
    if (done) break;
    const bool was_pause = running.task.wait().is_pause();
    running.task.resume();
    if (running.shown > transport::kDescriptorBytes) {
      now_ = {};
      stop_writing();
    }
    moved = true;
    if (running.task.done()) continue;
    if (operation != nullptr) listener_.on_native_progress(*operation);
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

/// The rank that does this call for all ranks; -1: each rank does its slice. If all ranks have started short
/// calls in a row, each rank does some for all, a few consecutive ones at a time. Ranks that share every one
/// of them read and write in the same pages at the same time, where their prefetchers take lines from each
/// other: 200 calls of 4 KiB took three times as long. -1 also if a rank waited for just this call when it
/// made it. All ranks get the same result, because all see the same descriptors.
int Group::owner_of(const Running& running) const {
  if (running.shown > kTurnBytes) return -1;
  for (const transport::CommSlot* slot : slots_) {
    // Relaxed: poll_descriptors() has acquired it.
    const std::uint64_t number =
        slot->descriptors[running.place % transport::kDescriptors].number.load(std::memory_order_relaxed);
    if ((number & transport::CallDescriptor::kBehindOthers) == 0) return -1;
  }
  const auto ranks = static_cast<std::uint64_t>(size());
  const std::uint64_t in_a_row = std::max<std::uint64_t>(transport::kCallsAhead / ranks, 1);
  return static_cast<int>(running.place / in_a_row % ranks);
}

/// The shares of the call, if ranks wait for cores: a running rank takes the next one. Else null. The same on
/// all ranks.
transport::SliceCounters* Group::shares(const Running& running) {
  const Call& call = running.call;
  if (!call.shape->form.writes_to_others() || running.shown > kSharesBytes) return nullptr;
  if (!is_oversubscribed_) {
    is_oversubscribed_ = std::ranges::any_of(segments_, [](const transport::SharedSegment* segment) {
      return segment->oversubscribed.load(std::memory_order_relaxed) != 0;
    });
  }
  if (!*is_oversubscribed_ || call.owner >= 0 || !is_named(running)) return nullptr;
  return &slots_.front()->shares[running.place % transport::kDescriptors];
}

void Group::begin_algorithm(Running& running) {
  Call& call = running.call;
  if (call.owner < 0) publish_done();  // it may take long
  call.slots = slots_;
  call.segments = segments_;
  call.segment = segment_;
  call.slot = slot_;
  call.pieces = &pieces_;
  call.done = &done_;
  call.place = running.place;
  call.number = ++long_calls_;
  running.state = Running::State::begun;
  running.task = run(call);
  running.task.resume();
}

/// Stops at `running.announced_ranks`, the first rank that has not announced the call, or has announced
/// another one.
Group::Announced Group::poll_descriptors(Running& running) const {
  for (; running.announced_ranks < size(); ++running.announced_ranks) {
    if (running.announced_ranks == rank_) continue;
    const transport::CallDescriptor& descriptor = slots_[static_cast<std::size_t>(running.announced_ranks)]
                                                      ->descriptors[running.place % transport::kDescriptors];
    const std::uint64_t number = descriptor.number.load(std::memory_order_acquire);
    if (!same_place(number, running.number)) return Announced::not_yet;
    if ((number & ~transport::CallDescriptor::kBehindOthers) != running.number ||
        !(descriptor.signature == running.signature))
      return Announced::otherwise;
  }
  return Announced::by_all;
}

void Group::fail(Operation* operation, int rank, const std::string& why) {
  if (operation == nullptr) return;
  failed_ = true;
  listener_.on_native_failure(*operation, rank, Status(Code::system, why));
}

/// Whether each rank has put its contribution on its segment. All ranks get the same result, because all see
/// the same descriptors.
bool Group::is_short(const Running& running) const {
  if (running.shown <= transport::kShortBytes) return true;
  if (running.shown > transport::kDescriptorBytes) return false;
  for (int r = 0; r < size(); ++r) {
    const transport::CallDescriptor& descriptor =
        slots_[static_cast<std::size_t>(r)]->descriptors[running.place % transport::kDescriptors];
    if (running.call.shape->shown_bytes(r) > 0 && descriptor.memory[0].region != 0) return false;
  }
  return true;
}

bool Group::has_come(const Wait& wait) const {
  if (wait.common != nullptr) return wait.common->load(std::memory_order_acquire) >= wait.target;
  if (wait.counter == nullptr) return true;
  for (int r = 0; r < size(); ++r) {
    if (r == rank_) continue;
    const transport::CommSlot& slot = *slots_[static_cast<std::size_t>(r)];
    if ((slot.*wait.counter).value.load(std::memory_order_acquire) < wait.target) return false;
  }
  return true;
}

void Group::finish_short_call(Running& running) const {
  std::array<const void*, 16> few;
  std::vector<const void*> many;
  if (slots_.size() > few.size()) many.resize(slots_.size());
  const std::span<const void*> shown(many.empty() ? few.data() : many.data(), slots_.size());
  for (int r = 0; r < size(); ++r) {
    const auto at = static_cast<std::size_t>(r);
    shown[at] = content_of(*slots_[at], running, running.call.shape->shown_bytes(r));
  }
  finish_short(running.call, shown);
  if (size() > 2) return;
  const int peer = 1 - rank_;
  transport::CommSlot& slot = *slots_[static_cast<std::size_t>(peer)];
  const std::uint64_t bytes = running.call.shape->shown_bytes(peer);
  if (bytes > transport::CallDescriptor::kInline)
    kernels::own_lines(slot.data[running.place % transport::kDescriptors], bytes);
}

/// No wake-up is lost. The publisher stores its value, then loads `asleep`; the sleeper stores `asleep`,
/// then polls once more what was published. A fence stands between the two on both sides (the other one in
/// Peers::announce_sleep()), so one of the two sees the other's store.
void Group::tell() {
  idle_polls_ = 0;
  if (!changed_) return;
  changed_ = false;
  std::atomic_thread_fence(std::memory_order_seq_cst);
  for (std::size_t r = 0; r < local_peers_.size(); ++r) {
    if (local_peers_[r] == nullptr) continue;
    const std::uint32_t asleep = segments_[r]->asleep.load(std::memory_order_relaxed);
    if (asleep % 2 == 0 || asleep == rung_[r]) continue;
    rung_[r] = asleep;
    local_peers_[r]->ring();
  }
}

Awaited Group::awaited() const {
  if (announced_ == finished_) return {};
  const Running& head = running(finished_);
  const auto found = [](const std::atomic<std::uint64_t>& number, auto lacks) {
    const std::uint64_t seen = number.load(std::memory_order_acquire);
    return lacks(seen) ? Awaited{&number, seen} : Awaited{};
  };
  if (head.state == Running::State::announced && head.announced_ranks < size()) {
    return found(slots_[static_cast<std::size_t>(head.announced_ranks)]
                     ->descriptors[head.place % transport::kDescriptors]
                     .number,
                 [&](std::uint64_t number) { return !same_place(number, head.number); });
  }
  if (head.state != Running::State::begun) return {};
  const Wait& wait = head.task.wait();
  const auto is_short = [&](std::uint64_t number) { return number < wait.target; };
  if (wait.common != nullptr) return found(*wait.common, is_short);
  for (int r = 0; r < size() && wait.counter != nullptr; ++r) {
    if (r == rank_) continue;
    const Awaited lacking = found((slots_[static_cast<std::size_t>(r)]->*wait.counter).value, is_short);
    if (lacking.number != nullptr) return lacking;
  }
  return {};
}

std::vector<int> Group::waiting_for() const {
  std::vector<int> ranks;
  if (calls_.empty()) return ranks;
  if (announced_ == finished_) return ranks;
  const Running& head = running(finished_);
  for (int r = 0; r < size(); ++r) {
    if (r == rank_) continue;
    const transport::CommSlot& slot = *slots_[static_cast<std::size_t>(r)];
    bool has_come = same_place(
        slot.descriptors[head.place % transport::kDescriptors].number.load(std::memory_order_acquire),
        head.number);
    if (head.state == Running::State::begun && !head.task.wait().is_pause()) {
      const Wait& wait = head.task.wait();
      has_come = wait.common != nullptr
                     ? slot.at_work.value.load(std::memory_order_relaxed) != head.place + 1
                     : (slot.*wait.counter).value.load(std::memory_order_acquire) >= wait.target;
    }
    if (!has_come) ranks.push_back(r);
  }
  return ranks;
}

void Group::close() {
  failed_ = true;
  segment_->closed.store(1, std::memory_order_seq_cst);
  // Orders `closed` before anything that the caller writes after this. A reader that sees some of that also
  // sees `closed`, after the fence of Call::is_given_up().
  std::atomic_thread_fence(std::memory_order_seq_cst);
}

void Group::release(const std::vector<bool>& lost) {
  const auto deadline = Deadline::after(kLongestPiece);
  bool all_stopped = calls_.empty();
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
      if (running(at).shown > transport::kShortBytes && call.shape->form.writes_to_others())
        transport::detach_shared_memory(call.output, call.shape->bytes());
    }
  }
  for (Running& running : running_) running.task = {};
  calls_.clear();
}

}  // namespace kolo::engine::native
