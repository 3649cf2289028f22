// Slots of the shared segments: which communicator of this rank uses which slot, and when a slot is free
// again.
#include <algorithm>

#include "engine/engine.hpp"

namespace kolo::engine {
namespace {

constexpr std::size_t kLeftContexts = 256;

/// The value of CommSlot::user for a communicator; 0 means none.
std::uint64_t user_of(std::uint32_t context) {
  return std::uint64_t{context} + 1;
}

}  // namespace

std::uint32_t Engine::claim_slot(std::uint32_t at_least, std::uint32_t context) {
  const auto lock = driver_.enter();
  free_slots();
  std::uint32_t slot = at_least;
  while (slot < transport::kCommSlots && taken_slots_[slot]) ++slot;
  if (slot >= transport::kCommSlots) return slot;
  taken_slots_.set(slot);
  transport::SharedSegment* const segment = peers_.segment();
  if (segment == nullptr) return slot;
  segment->slots[slot].clear();
  segment->slots[slot].user.store(user_of(context), std::memory_order_release);
  return slot;
}

void Engine::release_slot(std::uint32_t slot) {
  const auto lock = driver_.enter();
  if (slot < transport::kCommSlots) put_back_slot(slot);
}

void Engine::put_back_slot(std::uint32_t slot) {
  taken_slots_.reset(slot);
  if (transport::SharedSegment* const segment = peers_.segment())
    segment->slots[slot].user.store(0, std::memory_order_release);
}

native::Group* Engine::make_group(const std::vector<int>& ranks, std::uint32_t context, std::uint32_t slot) {
  if (slot >= transport::kCommSlots) return nullptr;
  const auto lock = driver_.enter();
  std::vector<transport::LocalPeer*> local_peers;
  int own = -1;
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    transport::LocalPeer* local_peer = ranks[r] == rank_ ? nullptr : link(ranks[r]).endpoint().local_peer();
    if (ranks[r] == rank_) own = static_cast<int>(r);
    local_peers.push_back(local_peer);
  }
  if (ranks.size() < 2 || std::ranges::count(local_peers, nullptr) > 1) {
    put_back_slot(slot);
    return nullptr;
  }
  groups_.push_back({std::make_unique<native::Group>(own, std::move(local_peers), slot,
                                                     static_cast<native::GroupListener&>(*this)),
                     ranks, context, slot});
  return groups_.back().group.get();
}

void Engine::leave(std::uint32_t context, const native::Group* group) {
  const auto lock = driver_.enter();
  forget_receives(context);
  if (group == nullptr) {
    // Peers may still ask how far this rank came. This rank cannot tell when they have left too, so it
    // remembers its last contexts.
    left_contexts_.push_back(context);
    if (left_contexts_.size() <= kLeftContexts) return;
    contexts_.erase(left_contexts_.front());
    left_contexts_.pop_front();
    return;
  }
  for (NativeGroup& native : groups_) {
    if (native.group.get() == group) native.is_left = true;
  }
  free_slots();
}

/// Frees the slots of the groups that all their ranks have left. Until then other ranks may still read what
/// this rank has published there.
void Engine::free_slots() {
  std::erase_if(groups_, [&](const NativeGroup& native) {
    if (!native.is_left || native.group->is_busy()) return false;
    peers_.segment()->slots[native.slot].user.store(0, std::memory_order_release);
    const bool is_used = std::ranges::any_of(native.ranks, [&](int rank) {
      if (rank == rank_) return false;
      const transport::CommSlot& slot = link(rank).endpoint().local_peer()->segment().slots[native.slot];
      return slot.user.load(std::memory_order_acquire) == user_of(native.context);
    });
    if (is_used) return false;
    taken_slots_.reset(native.slot);
    contexts_.erase(native.context);
    claimed_contexts_.erase(native.context);
    return true;
  });
}

}  // namespace kolo::engine
