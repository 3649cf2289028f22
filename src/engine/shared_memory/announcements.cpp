// How ranks announce a call and learn that all have announced the same one; and the calls that are over then,
// because their data has come with the descriptors.
#include <algorithm>
#include <array>
#include <cstring>
#include <span>
#include <utility>
#include <vector>

#include "engine/executor.hpp"
#include "engine/shared_memory/team.hpp"

namespace kolo::engine::shared_memory {
namespace {

/// The call's place in the slot and, as far as it fits, its number in the communicator. Ranks that have made
/// the same calls agree on both.
std::uint64_t note_number(std::uint64_t place, std::uint64_t call) {
  return (call << 32 | ((place + 1) & 0xffffffff)) & ~CallDescriptor::kBehindOthers;
}

/// Where a rank puts its contribution: in its descriptor, if it fits and the descriptor holds no ranges; else
/// in the slot.
template <typename AnySlot>
auto* content_of(AnySlot& slot, const Running& running, std::uint64_t bytes) {
  const bool fits = bytes <= CallDescriptor::kInline && running.shown <= kShortBytes;
  return fits ? slot.descriptors[running.place % kDescriptors].content
              : slot.data[running.place % kDescriptors];
}

}  // namespace

void Team::announce(const OperationSpec& spec, bool behind_others) {
  if (finished_ == announced_) first_ = announced_;  // calls made one at a time stay in the nearest cache
  Running& running = this->running(announced_);
  running.state = Running::State::announced;
  running.place = announced_++;
  running.number = note_number(running.place, spec.call);
  running.shown = spec.prepared->shape.most_shown;
  running.losses = transport::shared_memory_losses();
  running.announced_ranks = 0;
  running.works_for_all = running.is_agreed = false;
  Call& call = running.call;
  call.shape = &spec.prepared->shape;
  call.input = static_cast<const std::byte*>(spec.input);
  call.output = static_cast<std::byte*>(spec.output);
  call.fold = call.shape->form.reduces() ? kernels::fold_function(spec.dtype, spec.reduction.op()) : nullptr;
  CallDescriptor& descriptor = slot_->descriptors[running.place % kDescriptors];
  descriptor.signature = spec.signature;
  running.signature = spec.signature;  // a copy to compare with: other cores have the descriptor's line
  const std::uint64_t bytes = call.shape->shown_bytes(rank_);
  bool is_shared = false;
  if (running.shown > always_short_) {
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
  if (bytes > 0 && bytes <= kDescriptorBytes && !is_shared) {
    std::byte* content = content_of(*slot_, running, bytes);
    if (bytes > CallDescriptor::kInline) prefault_short();
    if (bytes > kShortBytes && size() > 2 && shared_cores_ == 0) {
      kernels::copy_for_others(content, call.input, bytes);
    } else {
      std::memcpy(content, call.input, bytes);
    }
  }
  descriptor.number.store(running.number | (behind_others ? CallDescriptor::kBehindOthers : 0),
                          std::memory_order_release);
  if (shared_cores_ > 0) {
    arrive(running, bytes > 0 && !is_shared);
  } else {
    changed_ = true;
  }
}

/// For ranks that share cores. No rank is woken before the last one has arrived. `is_private`: this rank's
/// data must pass through the segments, so this rank puts down the first piece before the others need it:
/// that saves it a turn.
void Team::arrive(Running& running, bool is_private) {
  Call& call = running.call;
  call.counters = &slots_.front()->shares[running.place % kDescriptors];
  call.shares = 0;
  const bool is_short = running.shown <= always_short_;
  // The last rank does a short call for all, unless it does not sum. If it stops before it has, the other
  // ranks know which one to blame.
  slot_->at_work.value.store(running.place + 1, std::memory_order_relaxed);
  const bool is_last = call.counters->arrive(running.place, static_cast<std::uint64_t>(size()));
  running.works_for_all = is_last && (sums_ || !is_summed_by_few(running));
  if (!running.works_for_all || !is_short) slot_->at_work.value.store(0, std::memory_order_relaxed);
  if (is_last && !(is_short && running.works_for_all)) {
    call.counters->open(running.place);
    if (is_short) {
      call.have_summed(*call.counters);
    } else {
      call.wake_all(*call.counters);
    }
    collect_changes(call);
  }
  const bool is_first = finished_ + 1 == announced_;
  if (is_short || !is_private || !is_first) return;
  call.inputs.clear();
  call.outputs.clear();
  begin_algorithm(running);
}

/// Stops at `running.announced_ranks`, the first rank that has not announced the call, or has announced
/// another one.
Team::Announced Team::poll_descriptors(Running& running) const {
  for (; running.announced_ranks < size(); ++running.announced_ranks) {
    if (running.announced_ranks == rank_) continue;
    const CallDescriptor& descriptor =
        slots_[static_cast<std::size_t>(running.announced_ranks)]->descriptors[running.place % kDescriptors];
    const std::uint64_t number = descriptor.number.load(std::memory_order_acquire);
    if (!same_place(number, running.number)) return Announced::not_yet;
    if ((number & ~CallDescriptor::kBehindOthers) != running.number ||
        !(descriptor.signature == running.signature))
      return Announced::otherwise;
  }
  return Announced::by_all;
}

/// Whether only some of the ranks read what all of them contribute.
bool Team::is_summed_by_few(const Running& running) const {
  return few_sum_ && running.call.shape->form.kind == schedule::SharedMemoryForm::Kind::reduce_for_all;
}

/// Whether this rank may still be needed to do a short call, which the last rank opens for that.
bool Team::may_be_needed(const Running& running) const {
  return sums_ && is_summed_by_few(running) && !running.call.counters->is_taken(running.place);
}

/// If the short call is open, this rank does it for all, unless another one does.
bool Team::take_short_call(Running& running) const {
  if (!may_be_needed(running) || !running.call.counters->is_open(running.place)) return false;
  slot_->at_work.value.store(running.place + 1, std::memory_order_relaxed);
  running.works_for_all = running.call.counters->take(running.place, 1).has_value();
  if (!running.works_for_all) slot_->at_work.value.store(0, std::memory_order_relaxed);
  return running.works_for_all;
}

/// For ranks that share cores. A rank that works for all, or reads other ranks' memory, looks at all
/// descriptors. For any other rank it is enough that the call, or its first piece, is finished: the ranks
/// that sum have looked.
Team::Announced Team::poll_announcements(Running& running) const {
  const SliceCounters* const counters = running.call.counters;
  if (counters == nullptr || running.works_for_all) return poll_descriptors(running);
  if (running.shown <= always_short_) {
    if (counters->is_finished(running.place, 1)) return Announced::by_all;
    return take_short_call(running) ? poll_descriptors(running) : Announced::not_yet;
  }
  if (!counters->is_open(running.place)) return Announced::not_yet;
  const bool reads_sums_alone = !sums_ && running.state == Running::State::begun && is_summed_by_few(running);
  return reads_sums_alone ? Announced::by_all : poll_descriptors(running);
}

/// Whether all ranks have announced this call. If one has announced another call, the call fails.
bool Team::is_agreed(Running& running, Operation* operation, bool& moved) {
  const int announced = running.announced_ranks;
  const Announced found = poll_announcements(running);
  if (found == Announced::by_all) return running.is_agreed = true;
  moved = moved || running.announced_ranks > announced;
  if (found == Announced::not_yet || operation == nullptr) return false;
  failed_ = true;
  const OperationSpec& spec = operation->spec();
  const auto rank = static_cast<std::size_t>(running.announced_ranks);
  listener_.on_disagreement(spec.call, spec.signature, spec.ranks()[rank],
                            slots_[rank]->descriptors[running.place % kDescriptors].signature);
  return false;
}

/// Whether each rank has put its contribution on its segment. All ranks get the same result, because all see
/// the same descriptors.
bool Team::is_short(const Running& running) const {
  if (running.shown <= always_short_) return true;
  if (running.shown > kDescriptorBytes) return false;
  for (int r = 0; r < size(); ++r) {
    const CallDescriptor& descriptor =
        slots_[static_cast<std::size_t>(r)]->descriptors[running.place % kDescriptors];
    if (running.call.shape->shown_bytes(r) > 0 && descriptor.memory[0].region != 0) return false;
  }
  return true;
}

void Team::finish_short_call(Running& running) {
  const bool takes_result =
      shared_cores_ > 0 && running.call.shape->form.kind == schedule::SharedMemoryForm::Kind::reduce_for_all;
  if (takes_result && !running.works_for_all) return take_result(running);
  std::array<const void*, 16> few;
  std::vector<const void*> many;
  if (slots_.size() > few.size()) many.resize(slots_.size());
  const std::span<const void*> shown(many.empty() ? few.data() : many.data(), slots_.size());
  for (int r = 0; r < size(); ++r) {
    const auto at = static_cast<std::size_t>(r);
    shown[at] = content_of(*slots_[at], running, running.call.shape->shown_bytes(r));
  }
  if (running.works_for_all) finish_short_call_for_all(running, shown);
  if (takes_result) return take_result(running);
  finish_short(running.call, shown);
}

/// Where the last rank to arrive puts the sums of a short call.
std::byte* Team::result_of(const Running& running) const {
  const bool fits = running.shown <= SliceCounters::kResultBytes;
  return fits ? running.call.counters->result : slots_.front()->data[running.place % kDescriptors];
}

/// Done by the rank that works for all: no other rank reads the contributions, so the sums may take the place
/// of one of them.
void Team::finish_short_call_for_all(Running& running, std::span<const void* const> shown) {
  Call& call = running.call;
  if (call.shape->form.kind == schedule::SharedMemoryForm::Kind::reduce_for_all) {
    void* const sums = result_of(running);
    call.fold(&sums, 1, shown.data(), shown.size(), call.shape->count, shown.size());
  }
  call.finish_share(*call.counters, running.place, 1);
  collect_changes(call);
  slot_->at_work.value.store(0, std::memory_order_relaxed);
}

void Team::take_result(const Running& running) const {
  const std::uint64_t bytes = running.call.shape->bytes();
  if (bytes > 0) std::memcpy(running.call.output, result_of(running), bytes);
}

}  // namespace kolo::engine::shared_memory
