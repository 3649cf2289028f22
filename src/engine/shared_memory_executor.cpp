#include "engine/shared_memory_executor.hpp"

#include <algorithm>
#include <utility>

#include "engine/shared_memory/nap.hpp"

namespace kolo::engine {
namespace {

constexpr std::uint64_t kImmediateBytes = 256 << 10;  // sums of this size take some microseconds

class SharedMemoryOperation final : public Operation {
 public:
  using Operation::Operation;

  std::vector<int> waiting_for() const override { return spec_.team()->waiting_for(); }
  bool needs(int rank) const override {
    const std::vector<int> awaited = waiting_for();
    return std::ranges::find(awaited, rank) != awaited.end();
  }
  bool is_behind() const override { return !spec_.team()->is_first(*this); }
};

}  // namespace

std::shared_ptr<Operation> SharedMemoryExecutor::make(std::weak_ptr<Engine> owner) {
  return std::make_shared<SharedMemoryOperation>(std::move(owner));
}

/// Polls until a poll returns true, or as often as a wait does that reads no clock; returns whether a poll
/// did. Stops early if another thread wants the lock. Ranks that share a core take turns on it and find their
/// caches cold, so between two polls they only read the number that they wait for.
template <typename Poll>
bool SharedMemoryExecutor::poll_first(const shared_memory::Team& team, Poll once) {
  shared_memory::Awaited awaited;
  for (int i = 0;; ++i) {
    const auto step = backoff_.first(i);
    if (step == Backoff::Step::sleep) return false;
    if (step == Backoff::Step::pause) relax();
    if (step == Backoff::Step::yield && !yield(backoff_)) return false;
    if (driver_.is_wanted()) return false;
    if (!awaited.has_changed()) continue;
    if (once()) return true;
    if (backoff_.shares_cores()) awaited = team.awaited();
  }
}

/// The peers are often about to make the same call. A call that is not long may then be over before an
/// operation could be set up for it.
bool SharedMemoryExecutor::try_immediate(const OperationSpec& spec) {
  if (spec.prepared->shape.most_shown > kImmediateBytes) return false;
  shared_memory::Team& team = *spec.team();
  team.begin_immediate(spec);
  return poll_first(team, [&] { return team.try_immediate(); });
}

/// Many calls are over so soon that reading a clock is not worth its cost.
void SharedMemoryExecutor::begin(Operation& operation, bool waits_now) {
  shared_memory::Team& team = *operation.spec().team();
  team.begin(operation, waits_now);
  const auto once = [&] {
    team.advance();
    return operation.done();
  };
  if (waits_now && driver_.is_free()) {
    poll_first(team, once);
  } else if ((waits_now || team.wants_poll()) && !driver_.is_wanted()) {
    once();
  }
  if (operation.done()) return;
  if (waits_now) team.tell();  // else the progress thread does, once the caller has started all its calls
  operation.start_clock();
  check_unexpected_messages(operation.spec());
}

bool SharedMemoryExecutor::advance() {
  bool moved = false;
  for (const Group* group : groups_.in_memory()) {
    if (group->team->is_busy()) moved = group->team->advance() || moved;
  }
  return moved;
}

bool SharedMemoryExecutor::advance_and_tell() {
  const bool moved = advance();
  for (const Group* group : groups_.in_memory()) group->team->tell();
  return moved;
}

std::vector<int> SharedMemoryExecutor::awaited_peers() const {
  std::vector<int> awaited;
  for (const Group* group : groups_.in_memory()) {
    for (const int rank : group->team->waiting_for())
      awaited.push_back(group->peers[static_cast<std::size_t>(rank)]);
  }
  return awaited;
}

void SharedMemoryExecutor::abandon() {
  for (const Group* group : groups_.in_memory()) {
    group->team->abandon([&](int r) { return peers_[group->peers[static_cast<std::size_t>(r)]].has_ended; });
  }
}

/// The group of the first call in shared memory, if its ranks share cores and no other operation of this
/// process needs to be driven meanwhile.
Group* SharedMemoryExecutor::group_to_wait_on(std::size_t operations) const {
  if (peers_.has_descriptors()) return nullptr;
  Group* found = nullptr;
  for (Group* group : groups_.in_memory()) {
    if (!group->team->is_busy()) continue;
    const bool is_only_one = found == nullptr && group->team->in_flight() == operations;
    if (!is_only_one || !group->team->can_nap()) return nullptr;
    found = group;
  }
  return found;
}

bool SharedMemoryExecutor::prepare_to_nap(std::size_t operations) {
  Group* const group = group_to_wait_on(operations);
  if (group == nullptr) return false;  // Driven::tick() has ended its call
  group->team->tell();
  interrupted_.store(false, std::memory_order_relaxed);
  napping_on_ = group->team->awaited();
  return napping_on_.counters != nullptr;
}

bool SharedMemoryExecutor::nap(std::chrono::nanoseconds longest) {
  shared_memory::nap(*napping_on_.counters, napping_on_.seen, longest, napping_on_.sums, interrupted_);
  return napping_on_.has_changed();
}

void SharedMemoryExecutor::fall_asleep() {
  for (const Group* group : groups_.in_memory()) group->team->fall_asleep();
}

void SharedMemoryExecutor::woken() {
  napping_on_ = {};
  for (const Group* group : groups_.in_memory()) group->team->wake_up();
}

bool SharedMemoryExecutor::interrupt() {
  if (napping_on_.counters == nullptr) return false;
  shared_memory::interrupt_nap(*napping_on_.counters, interrupted_);
  return true;
}

}  // namespace kolo::engine
