#include "comm/device/staged_run.hpp"

#include <algorithm>
#include <cstddef>
#include <thread>

#include <fmt/format.h>

#include "comm/device/looks.hpp"

namespace kolo::comm {
namespace {

// On one H100 pieces of 2 to 8 MiB took the least time: shorter ones cost a call's latency each, longer ones
// overlap less.
constexpr std::size_t kStagedBytes = std::size_t{4} << 20;
constexpr std::uint64_t kSlots = 4;
constexpr std::size_t kLine = 64;

}  // namespace

StagedRun::StagedRun(const CallParts& parts, std::size_t element_bytes, Staging& staging,
                     std::chrono::nanoseconds timeout)
    : parts_(parts), element_(element_bytes), staging_(staging), timeout_(timeout) {
  // Ranks cut alike, though some have no input, or no output.
  const std::size_t most = std::max({std::size_t{1}, parts.counts.size(), parts.recv_counts.size()});
  columns_ =
      parts.is_known_to_all ? std::max<std::uint64_t>(1, kStagedBytes / (most * element_)) : parts.longest;
  pieces_ = columns_ == 0 ? 1 : std::max<std::uint64_t>(1, (parts.longest + columns_ - 1) / columns_);
  const Columns first = columns_of(0);
  const std::size_t input = parts.input(first) * element_, output = parts.output(first) * element_;
  output_at_ = parts.is_one ? 0 : (input + kLine - 1) / kLine * kLine;
  has_data_ = input + output > 0;
  slots_ = std::min(pieces_, kSlots);
  works_.resize(slots_);
  if (has_data_) require_sound(staging.reserve(slots_, std::max(input, output_at_ + output)));
}

Columns StagedRun::columns_of(std::uint64_t piece) const {
  return {piece * columns_, std::min((piece + 1) * columns_, parts_.longest)};
}

bool StagedRun::has_reached(const device::Event& event) {
  auto reached = event.reached();
  require_sound(reached.status());
  return reached.value();
}

/// Between two looks at the device.
void StagedRun::pause(const char* what) {
  if (Clock::now() - last_progress_ > timeout_) {
    require_sound(Status(Code::timeout, fmt::format("cuda:{}: {} after {:.1f} s", staging_.gpu().index(),
                                                    what, to_seconds(timeout_))));
  }
  comm::pause(++looks_);
}

void StagedRun::wait_for(const device::Event& ready, const Work& presence) {
  while (!has_reached(ready)) {
    if (presence.done()) presence.wait();  // throws if a rank is lost
    pause("the call's stream is not there yet");
  }
  last_progress_ = Clock::now();
  looks_ = 0;
}

void StagedRun::run(const device::Event& ready, const Work& presence, const Begin& begin) {
  wait_for(ready, presence);
  try {
    while (back_ < pieces_) {
      if (move(presence, begin)) {
        last_progress_ = Clock::now();
        looks_ = 0;
      } else if (done_ < begun_) {
        static_cast<void>(works_[done_ % slots_].wait(kLook));
      } else if (!presence.done()) {
        static_cast<void>(presence.wait(kLook));
      } else {
        pause("a copy is not over");
      }
    }
  } catch (...) {
    drain();
    throw;
  }
}

/// Lets each stage go one piece further, where it can; returns whether one could.
bool StagedRun::move(const Work& presence, const Begin& begin) {
  const std::uint64_t before = fetched_ + begun_ + done_ + back_;
  if (fetched_ < pieces_ && fetched_ - back_ < slots_) down(fetched_++);
  if (begun_ < fetched_ && presence.done() && (!has_data_ || has_reached(slot_of(begun_).down))) {
    presence.wait();
    works_[begun_ % slots_] = begin_piece(begun_, begin);
    ++begun_;
  }
  if (done_ < begun_ && works_[done_ % slots_].done()) {
    works_[done_ % slots_].wait();
    up(done_++);
  }
  if (back_ < done_ && (!has_data_ || has_reached(slot_of(back_).up))) ++back_;
  return fetched_ + begun_ + done_ + back_ > before;
}

void StagedRun::down(std::uint64_t piece) {
  if (!has_data_) return;
  Staging::Slot& slot = slot_of(piece);
  std::byte* to = slot.memory;
  for (const ConstBuffer& part : parts_.in) {
    const Columns own = columns_of(piece).of(part.count);
    const std::size_t bytes = own.size() * element_;
    if (bytes == 0) continue;
    const auto* const from = static_cast<const std::byte*>(part.data) + own.begin * element_;
    require_sound(staging_.down().copy_down(to, from, bytes));
    to += bytes;
  }
  require_sound(slot.down.record(staging_.down().handle()));
}

Work StagedRun::begin_piece(std::uint64_t piece, const Begin& begin) {
  std::byte* const memory = has_data_ ? slot_of(piece).memory : nullptr;
  return begin(columns_of(piece), memory, has_data_ ? memory + output_at_ : nullptr);
}

void StagedRun::up(std::uint64_t piece) {
  if (!has_data_) return;
  Staging::Slot& slot = slot_of(piece);
  const std::byte* from = slot.memory + output_at_;
  for (const Buffer& part : parts_.out) {
    const Columns own = columns_of(piece).of(part.count);
    const std::size_t bytes = own.size() * element_;
    if (bytes == 0) continue;
    require_sound(
        staging_.up().copy_up(static_cast<std::byte*>(part.data) + own.begin * element_, from, bytes));
    from += bytes;
  }
  require_sound(slot.up.record(staging_.up().handle()));
}

/// After an error: neither the device nor a rank uses the call's memory any more. A device that has failed
/// does nothing.
void StagedRun::drain() noexcept {
  static_cast<void>(staging_.down().synchronize());
  for (const Work& work : works_)
    while (!work.done()) std::this_thread::sleep_for(kLook);
  static_cast<void>(staging_.up().synchronize());
}

}  // namespace kolo::comm
