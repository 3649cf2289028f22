// What a team waits for, which ranks are late, and the wake-up of ranks that sleep.
#include <atomic>
#include <utility>

#include "engine/shared_memory/team.hpp"

namespace kolo::engine::shared_memory {
namespace {

/// Whether the rank does a part of the call that other ranks wait for.
bool is_at_work(const CommSlot& slot, const Running& running) {
  return slot.at_work.value.load(std::memory_order_relaxed) == running.place + 1;
}

}  // namespace

/// No wake-up is lost. The publisher stores its value, then loads `asleep`; the sleeper stores `asleep`,
/// then polls once more what was published. A fence stands between the two on both sides (the other one in
/// Peers::announce_sleep()), so one of the two sees the other's store.
void Team::tell() {
  idle_polls_ = 0;
  if (!changed_ && !has_opened_) return;
  const bool concerns_all = std::exchange(changed_, false);
  has_opened_ = false;
  std::atomic_thread_fence(std::memory_order_seq_cst);
  for (std::size_t r = 0; r < local_peers_.size(); ++r) {
    if (local_peers_[r] == nullptr) continue;
    if (!concerns_all && !is_summing_rank(static_cast<int>(r), size(), shared_cores_)) continue;
    const std::uint32_t asleep = segments_[r]->asleep.load(std::memory_order_relaxed);
    if (asleep % 2 == 0 || asleep == rung_[r]) continue;
    rung_[r] = asleep;
    local_peers_[r]->ring();
  }
}

Awaited Team::awaited() const {
  if (announced_ == finished_) return {};
  const Running& head = running(finished_);
  const auto found = [](const std::atomic<std::uint64_t>& number, auto lacks) {
    const std::uint64_t seen = number.load(std::memory_order_acquire);
    return lacks(seen) ? Awaited{&number, seen} : Awaited{};
  };
  const auto found_in = [&](SliceCounters& counters, std::uint64_t target) {
    Awaited awaited = found(counters.finished, [&](std::uint64_t number) { return number < target; });
    if (awaited.number != nullptr) {
      awaited.counters = &counters;
      awaited.sums = sums_;
    }
    return awaited;
  };
  if (shared_cores_ > 0 && head.state == Running::State::announced) {
    const std::uint64_t open = SliceCounters::none_of(head.place);
    const bool waits_for_sums = head.shown <= always_short_ && !may_be_needed(head);
    return found_in(*head.call.counters, waits_for_sums ? open + 1 : open);
  }
  if (head.state == Running::State::announced && head.announced_ranks < size()) {
    return found(
        slots_[static_cast<std::size_t>(head.announced_ranks)]->descriptors[head.place % kDescriptors].number,
        [&](std::uint64_t number) { return !same_place(number, head.number); });
  }
  if (head.state != Running::State::begun) return {};
  const Wait& wait = head.task.wait();
  const auto is_short = [&](std::uint64_t number) { return number < wait.target; };
  if (wait.common != nullptr) return found_in(*wait.common, wait.common_target);
  for (int r = 0; r < size() && wait.counter != nullptr; ++r) {
    if (r == rank_) continue;
    const Awaited lacking = found((slots_[static_cast<std::size_t>(r)]->*wait.counter).value, is_short);
    if (lacking.number != nullptr) return lacking;
  }
  return {};
}

/// See SliceCounters::sleeping.
void Team::fall_asleep() {
  sleeping_on_ = shared_cores_ > 0 && is_busy() ? awaited().counters : nullptr;
  if (sleeping_on_ != nullptr) sleeping_on_->sleeping.fetch_add(1, std::memory_order_relaxed);
}

void Team::wake_up() {
  if (SliceCounters* const counters = std::exchange(sleeping_on_, nullptr))
    counters->sleeping.fetch_sub(1, std::memory_order_relaxed);
}

bool Team::can_nap() const {
  if (shared_cores_ == 0 || announced_ == finished_) return false;
  const Running& head = running(finished_);
  return head.state == Running::State::announced ||
         (head.state == Running::State::begun && head.task.wait().common != nullptr);
}

std::vector<int> Team::waiting_for() const {
  std::vector<int> ranks;
  if (calls_.empty()) return ranks;
  if (announced_ == finished_) return ranks;
  const Running& head = running(finished_);
  for (int r = 0; r < size(); ++r) {
    if (r == rank_) continue;
    const CommSlot& slot = *slots_[static_cast<std::size_t>(r)];
    bool has_come = same_place(
        slot.descriptors[head.place % kDescriptors].number.load(std::memory_order_acquire), head.number);
    if (head.state == Running::State::begun && !head.task.wait().is_pause()) {
      const Wait& wait = head.task.wait();
      const bool has_counted = wait.counter == nullptr ||
                               (slot.*wait.counter).value.load(std::memory_order_acquire) >= wait.target;
      has_come = has_counted && !is_at_work(slot, head);
    }
    if (!has_come) ranks.push_back(r);
  }
  if (!ranks.empty() || shared_cores_ == 0) return ranks;
  // All ranks have announced the call. One of them has not done it for all yet.
  for (int r = 0; r < size(); ++r) {
    if (r != rank_ && is_at_work(*slots_[static_cast<std::size_t>(r)], head)) ranks.push_back(r);
  }
  if (!ranks.empty()) return ranks;
  // None has begun to.
  for (int r = 0; r < size(); ++r) {
    if (r != rank_ && is_summing_rank(r, size(), shared_cores_)) ranks.push_back(r);
  }
  return ranks;
}

}  // namespace kolo::engine::shared_memory
