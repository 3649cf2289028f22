// What a team waits for, which ranks are late, and the wake-up of ranks that sleep.
#include <atomic>
#include <utility>

#include "engine/shared_memory/team.hpp"

namespace kolo::engine::shared_memory {

/// No wake-up is lost. The publisher stores its value, then loads `asleep`; the sleeper stores `asleep`,
/// then polls once more what was published. A fence stands between the two on both sides (the other one in
/// Peers::announce_sleep()), so one of the two sees the other's store.
void Team::tell() {
  idle_polls_ = 0;
  if (!published_.changed && !published_.has_opened) return;
  const bool concerns_all = std::exchange(published_, {}).changed;
  std::atomic_thread_fence(std::memory_order_seq_cst);
  for (std::size_t r = 0; r < local_peers_.size(); ++r) {
    if (local_peers_[r] == nullptr) continue;
    if (!concerns_all && !arrival_->may_sum(static_cast<int>(r))) continue;
    const std::uint32_t asleep = segments_[r]->asleep.load(std::memory_order_relaxed);
    if (asleep % 2 == 0 || asleep == rung_[r]) continue;
    rung_[r] = asleep;
    local_peers_[r]->ring();
  }
}

Awaited Running::lacking() const {
  const Wait& wait = task.wait();
  if (wait.common != nullptr) return lacking(*wait.common, wait.common_target);
  for (int r = 0; r < call.size && wait.counter != nullptr; ++r) {
    if (r == call.rank) continue;
    const std::atomic<std::uint64_t>& number = (slot_of(r).*wait.counter).value;
    const std::uint64_t seen = number.load(std::memory_order_acquire);
    if (seen < wait.target) return {&number, seen};
  }
  return {};
}

Awaited Team::awaited() const {
  if (announced_ == finished_) return {};
  const Running& head = running(finished_);
  if (head.state == Running::State::begun) return head.lacking();
  return head.state == Running::State::announced ? arrival_->awaited(head) : Awaited{};
}

/// See SliceCounters::sleeping.
void Team::fall_asleep() {
  sleeping_on_ = is_busy() ? awaited().counters : nullptr;
  if (sleeping_on_ != nullptr) sleeping_on_->sleeping.fetch_add(1, std::memory_order_relaxed);
}

void Team::wake_up() {
  if (SliceCounters* const counters = std::exchange(sleeping_on_, nullptr))
    counters->sleeping.fetch_sub(1, std::memory_order_relaxed);
}

bool Team::can_nap() const {
  if (announced_ == finished_) return false;
  const Running& head = running(finished_);
  if (head.state == Running::State::begun) return head.task.wait().common != nullptr;
  return head.state == Running::State::announced && head.call.counters != nullptr;
}

std::vector<int> Team::waiting_for() const {
  std::vector<int> ranks;
  if (calls_.empty() || announced_ == finished_) return ranks;
  const Running& head = running(finished_);
  for (int r = 0; r < size(); ++r) {
    if (r == rank_) continue;
    bool has_come = head.has_place_of(head.descriptor_of(r).number.load(std::memory_order_acquire));
    if (head.state == Running::State::begun && !head.task.wait().is_pause()) {
      const Wait& wait = head.task.wait();
      const bool has_counted =
          wait.counter == nullptr ||
          (head.slot_of(r).*wait.counter).value.load(std::memory_order_acquire) >= wait.target;
      has_come = has_counted && !head.is_work_of(r);
    }
    if (!has_come) ranks.push_back(r);
  }
  if (ranks.empty()) arrival_->add_late(head, ranks);
  return ranks;
}

}  // namespace kolo::engine::shared_memory
