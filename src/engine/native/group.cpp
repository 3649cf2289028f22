#include "engine/native/group.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <thread>

#include "base/deadline.hpp"
#include "engine/operation.hpp"

namespace kolo::native {
namespace {

/// A rank that runs ends a piece of writing in microseconds; on a busy machine it may have to wait for a
/// core.
constexpr auto kLongestPiece = std::chrono::milliseconds(100);

constexpr int kQuietLooks = 8;

/// The place in the lane and, as far as it fits, the communicator's number of the call: ranks that count
/// alike agree on both.
std::uint64_t note_number(std::uint64_t place, std::uint64_t call) {
  return call << 32 | ((place + 1) & 0xffffffff);
}

bool same_place(std::uint64_t one, std::uint64_t other) {
  return static_cast<std::uint32_t>(one) == static_cast<std::uint32_t>(other);
}

const std::byte* content_of(const Lane& lane, std::uint64_t place, std::uint64_t bytes) {
  return bytes <= Note::kInline ? lane.notes[place % kNotes].content : lane.data[place % kNotes];
}

}  // namespace

Group::Group(int rank, std::vector<Neighbour*> neighbours, std::uint32_t lane, GroupListener& listener)
    : rank_(rank), neighbours_(std::move(neighbours)), listener_(listener), rung_(neighbours_.size(), 0) {
  for (Neighbour* neighbour : neighbours_) {
    if (neighbour != nullptr) board_ = &neighbour->own_board();
  }
  lane_ = &board_->lanes[lane];
  for (Neighbour* neighbour : neighbours_) {
    boards_.push_back(neighbour == nullptr ? board_ : &neighbour->board());
    lanes_.push_back(&boards_.back()->lanes[lane]);
  }
}

void Group::begin(Operation& operation) {
  const OperationSpec& spec = operation.spec();
  Running& running = operation.native();
  running.number = note_number(begun_++, spec.call);
  running.noted = 0;
  running.task = {};
  Call& call = running.call;
  call.inputs.clear();
  call.outputs.clear();
  call.shape = &spec.recipe->shape;
  call.rank = rank_;
  call.size = size();
  call.input = static_cast<const std::byte*>(spec.input);
  call.output = static_cast<std::byte*>(spec.output);
  if (is_reducing(spec.collective)) call.fold = kernels::fold_function(spec.dtype, spec.reduction.op());
  running.is_short = call.shape->most_shown_bytes(size()) <= kNoteBytes;
  if (!running.is_short) {
    call.lanes = lanes_;
    call.boards = boards_;
    call.board = board_;
    call.lane = lane_;
    call.pieces = &pieces_;
    call.number = ++long_calls_;
  }
  calls_.push_back(&operation);
  announce_more();
}

bool Group::announce_more() {
  bool moved = false;
  while (announced_ < begun_ && announced_ < finished_ + kCallsAhead) {
    announce(*calls_[announced_ - finished_]);
    moved = true;
  }
  return moved;
}

void Group::announce(Operation& operation) {
  const std::uint64_t place = announced_++;
  Note& note = lane_->notes[place % kNotes];
  const Running& running = operation.native();
  const Call& call = running.call;
  note.signature = operation.spec().signature;
  if (running.is_short) {
    const std::uint64_t bytes = call.shape->shown_bytes(rank_);
    std::byte* content = bytes <= Note::kInline ? note.content : lane_->data[place % kNotes];
    if (bytes > 0) std::memcpy(content, call.input, bytes);
  } else {
    // One name for all: memory that some neighbour cannot be told of counts as private.
    const auto name = [&](const void* data, std::uint64_t bytes) {
      std::optional<RemoteRange> range;
      for (Neighbour* neighbour : neighbours_) {
        if (neighbour == nullptr) continue;
        range = neighbour->share(data, bytes);
        if (!range) return RemoteRange{};
      }
      return *range;
    };
    note.memory[0] = name(call.input, call.shape->shown_bytes(rank_));
    const bool in_place = call.output == call.input;
    const bool written = call.shape->collective == Collective::all_reduce;
    note.memory[1] = !written   ? RemoteRange{}
                     : in_place ? note.memory[0]
                                : name(call.output, call.shape->bytes());
  }
  note.number.store(running.number, std::memory_order_release);
  changed_ = true;
}

bool Group::advance() {
  bool moved = false;
  while (!calls_.empty() && !failed_) {
    Operation& operation = *calls_.front();
    if (!step(operation, moved)) break;
    calls_.pop_front();
    ++finished_;
    moved = true;
    announce_more();
    listener_.on_native_finished(operation);
  }
  // Looking at who sleeps takes until everybody can see what was published. Whoever answers within that time
  // is awake, and has been looked at sooner.
  if (moved || ++quiet_looks_ > kQuietLooks) tell();
  return moved;
}

/// Returns whether the call has finished.
bool Group::step(Operation& operation, bool& moved) {
  Running& running = operation.native();
  Call& call = running.call;
  if (!running.task) {
    const int noted = running.noted;
    if (!all_have_noted(operation)) {
      moved = moved || running.noted > noted;
      return false;
    }
    if (running.is_short) {
      finish_short_call(call);
      return true;
    }
    if (!reach_memory(call)) return false;
    running.task = run(call);
    running.task.resume();
    moved = true;
  }
  while (true) {
    changed_ = std::exchange(call.changed, false) || changed_;
    if (is_void(call)) return false;
    if (running.task.done()) break;
    if (!has_come(running.task.wait())) return false;
    listener_.on_native_progress(operation);
    const bool was_pause = running.task.wait().counter == nullptr;
    running.task.resume();
    moved = true;
    if (was_pause && !running.task.done()) return false;
  }
  if (!is_still_shared(call)) fail(rank_, "its shared memory was given up by another communicator");
  return !failed_;
}

bool Group::all_have_noted(Operation& operation) {
  Running& running = operation.native();
  for (; running.noted < size(); ++running.noted) {
    if (running.noted == rank_) continue;
    const Note& note = lanes_[static_cast<std::size_t>(running.noted)]->notes[finished_ % kNotes];
    const std::uint64_t number = note.number.load(std::memory_order_acquire);
    if (!same_place(number, running.number)) return false;
    if (number != running.number || !(note.signature == operation.spec().signature)) {
      failed_ = true;
      listener_.on_native_mismatch(operation, running.noted, note.signature);
      return false;
    }
  }
  return true;
}

void Group::fail(int rank, const std::string& why) {
  failed_ = true;
  listener_.on_native_failure(*calls_.front(), rank, Status(Code::system, why));
}

/// An operation elsewhere that failed may have taken the memory from under this one.
bool Group::is_still_shared(const Call& call) const {
  const std::uint64_t shown = call.shape->shown_bytes(rank_);
  return (call.inputs.empty() || shown == 0 || is_shared_memory(call.input, shown)) &&
         (call.outputs.empty() || is_shared_memory(call.output, call.shape->bytes()));
}

/// A rank that has failed may use, or free, the memory that the others read, and they may all be past the
/// last counter: they end with the failure that it has told them, or with its leaving.
bool Group::is_void(const Call& call) const {
  if (call.inputs.empty()) return false;
  std::atomic_thread_fence(std::memory_order_acquire);  // what was read was read before the look
  return std::any_of(boards_.begin(), boards_.end(),
                     [](const Board* board) { return board->closed.load(std::memory_order_relaxed) != 0; });
}

/// Where everybody's memory is, if all of it that matters is shared.
bool Group::reach_memory(Call& call) {
  const Shape& shape = *call.shape;
  const bool written = shape.collective == Collective::all_reduce;
  for (int r = 0; r < size(); ++r) {
    const Note& note = lanes_[static_cast<std::size_t>(r)]->notes[finished_ % kNotes];
    if (shape.shown_bytes(r) > 0 && note.memory[0].region == 0) return true;
    if (written && note.memory[1].region == 0) return true;
  }
  const auto reach = [&](int r, const RemoteRange& range, std::uint64_t bytes) {
    std::byte* data = neighbours_[static_cast<std::size_t>(r)]->reach(range, bytes);
    if (data == nullptr) fail(r, "cannot map the shared memory that it named");
    return data;
  };
  call.inputs.resize(static_cast<std::size_t>(size()));
  if (written) call.outputs.resize(static_cast<std::size_t>(size()));
  for (int r = 0; r < size() && !failed_; ++r) {
    const auto at = static_cast<std::size_t>(r);
    const Note& note = lanes_[at]->notes[finished_ % kNotes];
    const std::uint64_t bytes = shape.shown_bytes(r);
    if (r == rank_) {
      call.inputs[at] = call.input;
      if (written) call.outputs[at] = call.output;
      continue;
    }
    if (bytes > 0) call.inputs[at] = reach(r, note.memory[0], bytes);
    if (written && !failed_) {
      const bool in_place =
          note.memory[0].region == note.memory[1].region && note.memory[0].offset == note.memory[1].offset;
      call.outputs[at] = in_place ? const_cast<std::byte*>(call.inputs[at]) : reach(r, note.memory[1], bytes);
    }
  }
  return !failed_;
}

bool Group::has_come(const Wait& wait) const {
  if (wait.counter == nullptr) return true;
  for (int r = 0; r < size(); ++r) {
    if (r == rank_) continue;
    const Lane& lane = *lanes_[static_cast<std::size_t>(r)];
    if ((lane.*wait.counter).value.load(std::memory_order_acquire) < wait.target) return false;
  }
  return true;
}

void Group::finish_short_call(const Call& call) const {
  std::array<const void*, 16> few;
  std::vector<const void*> many;
  if (lanes_.size() > few.size()) many.resize(lanes_.size());
  const std::span<const void*> shown(many.empty() ? few.data() : many.data(), lanes_.size());
  for (int r = 0; r < size(); ++r) {
    const auto at = static_cast<std::size_t>(r);
    shown[at] = content_of(*lanes_[at], finished_, call.shape->shown_bytes(r));
  }
  finish_short(call, shown);
}

/// What was published comes before the look at who sleeps, and who falls asleep says so before the last look
/// at what was published: one of the two sees the other.
void Group::tell() {
  quiet_looks_ = 0;
  if (!changed_) return;
  changed_ = false;
  std::atomic_thread_fence(std::memory_order_seq_cst);
  for (std::size_t r = 0; r < neighbours_.size(); ++r) {
    if (neighbours_[r] == nullptr) continue;
    const std::uint32_t asleep = boards_[r]->asleep.load(std::memory_order_relaxed);
    if (asleep % 2 == 0 || asleep == rung_[r]) continue;
    rung_[r] = asleep;
    neighbours_[r]->ring();
  }
}

std::vector<int> Group::waiting_for() const {
  std::vector<int> ranks;
  if (calls_.empty()) return ranks;
  const Running& head = calls_.front()->native();
  for (int r = 0; r < size(); ++r) {
    if (r == rank_) continue;
    const Lane& lane = *lanes_[static_cast<std::size_t>(r)];
    bool has_come =
        same_place(lane.notes[finished_ % kNotes].number.load(std::memory_order_acquire), head.number);
    if (head.task && head.task.wait().counter != nullptr) {
      const Wait& wait = head.task.wait();
      has_come = (lane.*wait.counter).value.load(std::memory_order_acquire) >= wait.target;
    }
    if (!has_come) ranks.push_back(r);
  }
  return ranks;
}

void Group::close() {
  failed_ = true;
  board_->closed.store(1, std::memory_order_seq_cst);
}

void Group::release(const std::vector<bool>& lost) {
  const auto deadline = Deadline::after(kLongestPiece);
  bool all_stopped = calls_.empty();
  while (!all_stopped) {
    all_stopped = true;
    for (std::size_t r = 0; r < boards_.size(); ++r) {
      if (!lost[r] && boards_[r]->writing.load(std::memory_order_seq_cst) != 0) all_stopped = false;
    }
    if (all_stopped || deadline.passed()) break;
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
  if (!all_stopped) {
    for (Operation* operation : calls_) {
      // Also of a call that this rank has not looked at since everybody announced it.
      const Running& running = operation->native();
      const Call& call = running.call;
      const bool is_written = !running.is_short && call.shape->collective == Collective::all_reduce;
      if (is_written) detach_shared_memory(call.output, call.shape->bytes());
    }
  }
  for (Operation* operation : calls_) operation->native().task = {};
  calls_.clear();
}

}  // namespace kolo::native
