// Arrival: how the ranks of a team learn that all have announced a call, and what they wait for then.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "engine/shared_memory/call.hpp"
#include "engine/shared_memory/segment.hpp"

namespace kolo::engine::shared_memory {

/// A number that another rank will change.
struct Awaited {
  const std::atomic<std::uint64_t>* number = nullptr;
  std::uint64_t seen = 0;
  SliceCounters* counters = nullptr;  ///< not null: `number` is their `finished`; see nap()
  bool sums = false;                  ///< see nap()

  bool has_changed() const { return number == nullptr || number->load(std::memory_order_acquire) != seen; }
};

/// A call that has been announced.
struct Running {
  enum class State { announced, begun, finished };

  State state = State::announced;
  std::uint64_t number = 0;        ///< as in its CallDescriptor, but for CallDescriptor::kBehindOthers
  std::uint64_t shown = 0;         ///< bytes of the rank that contributes most
  std::uint64_t losses = 0;        ///< shared_memory_losses() at that time
  transport::Signature signature;  ///< as in its CallDescriptor
  int announced_ranks = 0;         ///< number of ranks, from 0 on, that have announced it
  bool works_for_all = false;      ///< this rank does a short call, or opens a long one, for all ranks
  bool is_agreed = false;          ///< all ranks have announced the same call, as far as this rank must know
  Call call;
  Task task;

  /// This rank has nothing more to do for it.
  bool is_settled() const { return state == State::begun ? task.wait().is_last : state == State::finished; }
  CommSlot& slot_of(int r) const { return *call.slots[static_cast<std::size_t>(r)]; }
  CallDescriptor& descriptor_of(int r) const { return slot_of(r).descriptors[call.place % kDescriptors]; }
  /// Whether a descriptor with this number announces a call at this place of the slot.
  bool has_place_of(std::uint64_t other) const {
    return static_cast<std::uint32_t>(number) == static_cast<std::uint32_t>(other);
  }
  /// Where rank r puts its contribution: in its descriptor, if it fits and the descriptor holds no ranges;
  /// else in its slot.
  std::byte* content_of(int r) const {
    const bool fits = call.shape->shown_bytes(r) <= CallDescriptor::kInline && shown <= kShortBytes;
    return fits ? descriptor_of(r).content : slot_of(r).data[call.place % kDescriptors];
  }
  /// Whether all memory that matters to a long call is shared.
  bool is_named() const;
  /// Whether all shares of a call are done, by any ranks.
  bool is_shared_out() const {
    return call.shares > 0 && call.counters->is_finished(call.place, call.shares);
  }
  /// The first number for which the task waits; empty if all have come.
  Awaited lacking() const;
  Awaited lacking(SliceCounters& counters, std::uint64_t target) const {
    const std::uint64_t seen = counters.finished.load(std::memory_order_acquire);
    return seen < target ? Awaited{&counters.finished, seen, &counters, call.sums} : Awaited{};
  }
  /// Whether rank r does a part of the call that other ranks wait for.
  bool is_work_of(int r) const {
    return slot_of(r).at_work.value.load(std::memory_order_relaxed) == call.place + 1;
  }
};

/// How ranks learn that all have announced a call, and which of them do it. What is virtual differs if ranks
/// share cores. Each Team has one.
class Arrival {
 public:
  enum class Announced { not_yet, by_all, otherwise };

  /// For ranks that each have a core: a rank looks at the descriptors of all others.
  Arrival() : Arrival(kShortBytes) {}
  /// For ranks that share `cores`. Each look at all other ranks, and each wake-up, would be paid by every
  /// rank. So the ranks count their arrivals. The last rank to arrive does a short call for all ranks, or
  /// opens a long one, and only then wakes the ranks that wait: a call takes one turn of each rank, and the
  /// first rank's segment has the sums. Of many ranks few sum, and only those are woken to do so.
  static std::unique_ptr<Arrival> of_shared_cores(int rank, int size, int cores);
  virtual ~Arrival() = default;

  /// The longest data that always travels with the descriptor.
  const std::uint64_t always_short;

  /// This rank has announced the call.
  virtual void announced(Running& running) const;
  /// Whether all ranks have announced the call, as far as this rank must know. `otherwise`: the rank
  /// `announced_ranks` has announced another call.
  virtual Announced poll(Running& running) const;
  /// All ranks have announced a call whose data has come with the descriptors.
  virtual void finish_short(Running& running) const;
  /// Decides which ranks do a long call. All get the same result, because all see the same descriptors.
  virtual void divide(Running& running) const;
  /// The number that poll() lacks; empty if it has changed.
  virtual Awaited awaited(const Running& running) const;
  /// Whether the rank is woken where something is opened for the ranks that sum.
  virtual bool may_sum(int /*rank*/) const { return true; }
  /// Adds the ranks to blame for a call that all ranks have announced.
  virtual void add_late(const Running& /*running*/, std::vector<int>& /*ranks*/) const {}

 protected:
  explicit Arrival(std::uint64_t short_bytes) : always_short(short_bytes) {}
  /// Sets Call::from.
  static void find_contributions(Running& running);
};

}  // namespace kolo::engine::shared_memory
