// The numbers of communicators, and their slots in the shared segments: when they are taken, and when they
// are free again.
#include "engine/group.hpp"

#include <algorithm>
#include <bitset>

namespace kolo::engine {
namespace {

constexpr std::size_t kMostClosed = 256;

/// The value of CommSlot::user for a communicator; 0 means none.
std::uint64_t user_of(const Group& group) {
  return std::uint64_t{group.context} + 1;
}

}  // namespace

Group* Groups::reserve(std::uint32_t context, std::uint32_t first_slot) {
  remove_unused();
  if (context == kMeeting || groups_.contains(context)) return nullptr;
  std::bitset<shared_memory::kCommSlots> taken;
  for (const auto& [number, group] : groups_) {
    if (group->slot < taken.size()) taken.set(group->slot);
  }
  auto made = std::make_unique<Group>();
  made->context = context;
  made->slot = first_slot;
  while (made->slot < taken.size() && taken[made->slot]) ++made->slot;
  if (shared_memory::Segment* const segment = peers_.segment();
      segment != nullptr && made->slot < taken.size()) {
    segment->slots[made->slot].clear();
    segment->slots[made->slot].user.store(user_of(*made), std::memory_order_release);
  }
  return (groups_[context] = std::move(made)).get();
}

void Groups::withdraw(Group& group) {
  give_back_slot(group);
  groups_.erase(group.context);
}

Group* Groups::meet(std::vector<int> peers) {
  return &meetings_.emplace_back(Group{.context = kMeeting, .peers = std::move(peers)});
}

void Groups::open(Group& group, std::vector<int> peers) {
  group.peers = std::move(peers);
}

bool Groups::share_memory(Group& group, int shared_cores) {
  std::vector<transport::LocalPeer*> local_peers;
  int own = -1;
  for (const int peer : group.peers) {
    if (peer == rank_) own = static_cast<int>(local_peers.size());
    local_peers.push_back(peer == rank_ ? nullptr : peers_[peer].link.endpoint().local_peer());
  }
  const bool shares_memory = group.peers.size() > 1 && std::ranges::count(local_peers, nullptr) == 1;
  if (!shares_memory || group.slot >= shared_memory::kCommSlots) {
    give_back_slot(group);
    return !shares_memory;
  }
  group.team =
      std::make_unique<shared_memory::Team>(own, std::move(local_peers), group.slot, shared_cores, listener_);
  in_memory_.push_back(&group);
  return true;
}

void Groups::close(Group& group) {
  group.is_closed = true;
  if (group.team == nullptr && group.context != kMeeting) closed_.push_back(&group);
  remove_unused();
}

Group* Groups::find(std::uint32_t context) const {
  const auto found = groups_.find(context);
  return found == groups_.end() ? nullptr : found->second.get();
}

void Groups::give_back_slot(Group& group) {
  shared_memory::Segment* const segment = peers_.segment();
  if (segment != nullptr && group.slot < shared_memory::kCommSlots)
    segment->slots[group.slot].user.store(0, std::memory_order_release);
  group.slot = shared_memory::kCommSlots;
}

/// A group in shared memory stays until all its ranks have left it: they may still read what this rank has
/// published there. Another group's peers may still ask how far this rank came. This rank cannot tell when
/// they have left too, so it remembers the last groups.
void Groups::remove_unused() {
  meetings_.remove_if([](const Group& group) { return group.is_closed && group.operations == 0; });
  std::erase_if(in_memory_, [&](const Group* group) {
    if (!group->is_closed || group->operations > 0) return false;
    peers_.segment()->slots[group->slot].user.store(0, std::memory_order_release);
    const bool is_used = std::ranges::any_of(group->peers, [&](int peer) {
      if (peer == rank_) return false;
      const auto& segment = shared_memory::Segment::in(peers_[peer].link.endpoint().local_peer()->segment());
      return segment.slots[group->slot].user.load(std::memory_order_acquire) == user_of(*group);
    });
    if (!is_used) groups_.erase(group->context);
    return !is_used;
  });
  while (closed_.size() > kMostClosed && closed_.front()->operations == 0) {
    groups_.erase(closed_.front()->context);
    closed_.pop_front();
  }
}

}  // namespace kolo::engine
