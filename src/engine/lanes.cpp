// Lanes of the boards: which communicator of this rank uses which lane, and when a lane is free again.
#include <algorithm>

#include "engine/engine.hpp"

namespace kolo {
namespace {

constexpr std::size_t kLeftContexts = 256;

/// The value of CommSlot::user for a communicator; 0 means none.
std::uint64_t user_of(std::uint32_t context) {
  return std::uint64_t{context} + 1;
}

}  // namespace

std::uint32_t Engine::claim_slot(std::uint32_t at_least, std::uint32_t context) {
  const auto lock = enter();
  free_lanes();
  std::uint32_t lane = at_least;
  while (lane < kCommSlots && taken_lanes_[lane]) ++lane;
  if (lane >= kCommSlots) return lane;
  taken_lanes_.set(lane);
  if (board_ == nullptr) return lane;
  board_->lanes[lane].clear();
  board_->lanes[lane].user.store(user_of(context), std::memory_order_release);
  return lane;
}

void Engine::release_lane(std::uint32_t lane) {
  const auto lock = enter();
  if (lane < kCommSlots) put_back_slot(lane);
}

void Engine::put_back_slot(std::uint32_t lane) {
  taken_lanes_.reset(lane);
  if (board_ != nullptr) board_->lanes[lane].user.store(0, std::memory_order_release);
}

native::Group* Engine::make_group(const std::vector<int>& ranks, std::uint32_t context, std::uint32_t lane) {
  if (lane >= kCommSlots) return nullptr;
  const auto lock = enter();
  std::vector<LocalPeer*> neighbours;
  int own = -1;
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    LocalPeer* neighbour = ranks[r] == rank_ ? nullptr : link(ranks[r]).endpoint().neighbour();
    if (ranks[r] == rank_) own = static_cast<int>(r);
    neighbours.push_back(neighbour);
  }
  if (ranks.size() < 2 || std::ranges::count(neighbours, nullptr) > 1) {
    put_back_slot(lane);
    return nullptr;
  }
  groups_.push_back({std::make_unique<native::Group>(own, std::move(neighbours), lane,
                                                     static_cast<native::GroupListener&>(*this)),
                     ranks, context, lane});
  return groups_.back().group.get();
}

void Engine::leave(std::uint32_t context, const native::Group* group) {
  const auto lock = enter();
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
  free_lanes();
}

/// Frees the lanes of the groups that all their ranks have left. Until then other ranks may still read what
/// this rank has published there.
void Engine::free_lanes() {
  std::erase_if(groups_, [&](const NativeGroup& native) {
    if (!native.is_left || native.group->is_busy()) return false;
    board_->lanes[native.lane].user.store(0, std::memory_order_release);
    const bool is_used = std::ranges::any_of(native.ranks, [&](int rank) {
      if (rank == rank_) return false;
      const CommSlot& lane = link(rank).endpoint().neighbour()->board().lanes[native.lane];
      return lane.user.load(std::memory_order_acquire) == user_of(native.context);
    });
    if (is_used) return false;
    taken_lanes_.reset(native.lane);
    contexts_.erase(native.context);
    claimed_contexts_.erase(native.context);
    return true;
  });
}

}  // namespace kolo
