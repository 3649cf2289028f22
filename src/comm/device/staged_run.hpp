// StagedRun: one call on a device's memory on its way through the host's.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <vector>

#include "base/deadline.hpp"
#include "comm/device/broken.hpp"
#include "comm/device/pieces.hpp"
#include "comm/device/staging.hpp"
#include "kolo/work.hpp"

namespace kolo::comm {

/// Copies pieces down, has them carried out, and copies what came of them up, several at a time.
class StagedRun {
 public:
  /// Begins the call of a piece on the host's memory.
  using Begin = std::function<Work(Columns columns, std::byte* input, std::byte* output)>;

  /// The references outlive the run. `timeout`: longest time in which the device does nothing.
  StagedRun(const CallParts& parts, std::size_t element_bytes, Staging& staging,
            std::chrono::nanoseconds timeout);

  /// Returns when the device has all. `ready`: what the caller's stream held. `presence` is done when all
  /// ranks are there. Throws Broken, and what a Work throws; nothing uses the caller's memory then.
  void run(const device::Event& ready, const Work& presence, const Begin& begin);

 private:
  Columns columns_of(std::uint64_t piece) const;
  Staging::Slot& slot_of(std::uint64_t piece) { return staging_.slots()[piece % slots_]; }
  bool has_reached(const device::Event& event);
  void pause(const char* what);
  void wait_for(const device::Event& ready, const Work& presence);
  bool move(const Work& presence, const Begin& begin);
  void down(std::uint64_t piece);
  Work begin_piece(std::uint64_t piece, const Begin& begin);
  void up(std::uint64_t piece);
  void drain() noexcept;

  const CallParts& parts_;
  const std::size_t element_;
  Staging& staging_;
  const std::chrono::nanoseconds timeout_;
  std::uint64_t columns_;    ///< of a piece
  std::uint64_t pieces_;     ///< the same number on all ranks
  std::size_t output_at_;    ///< in a slot
  bool has_data_;            ///< this rank gives or gets some
  std::uint64_t slots_;      ///< that it uses
  std::vector<Work> works_;  ///< by slot
  // Pieces that have begun to come down, that are being carried out, that are done, that are back.
  std::uint64_t fetched_ = 0, begun_ = 0, done_ = 0, back_ = 0;
  Clock::time_point last_progress_ = Clock::now();
  int looks_ = 0;  ///< without progress
};

}  // namespace kolo::comm
