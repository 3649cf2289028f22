// The implementation of kolo/arena.hpp.
#include "kolo/arena.hpp"

#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <list>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "base/status.hpp"
#include "transport/shm/free_ranges.hpp"
#include "transport/shm/regions.hpp"

namespace kolo {
namespace {

constexpr std::size_t kAlignment = 64;
// Offsets at which large blocks start in their first huge page. A cache of 8 ways holds 8 lines of equal
// sets: 16 arrays at equal offsets were summed at 0.4 (1 MiB each) to 0.65 times (16 MiB) the speed of 16
// that start three lines apart. Offsets of whole pages did not help.
constexpr std::size_t kColours = 16;
constexpr std::size_t kColourStep = 192;

std::size_t round_up(std::size_t number, std::size_t to) {
  return (number + to - 1) / to * to;
}

/// A region, and which parts of it are in use.
struct Area {
  explicit Area(std::shared_ptr<transport::shm::Region> made)
      : region(std::move(made)),
        free(region->bytes()),
        committed(region->bytes() / transport::shm::kHugePage) {}

  /// Gets the memory behind a range that has been taken from `free`.
  Status commit(std::size_t offset, std::size_t bytes) {
    const std::size_t end = (offset + bytes - 1) / transport::shm::kHugePage + 1;
    for (std::size_t page = offset / transport::shm::kHugePage; page < end; ++page) {
      if (committed[page]) continue;
      std::size_t next = page;
      while (next < end && !committed[next]) ++next;
      Status status =
          region->commit(page * transport::shm::kHugePage, (next - page) * transport::shm::kHugePage);
      if (!status.ok()) return status;
      std::fill(committed.begin() + static_cast<std::ptrdiff_t>(page),
                committed.begin() + static_cast<std::ptrdiff_t>(next), true);
    }
    return Status();
  }

  std::shared_ptr<transport::shm::Region> region;
  transport::shm::FreeRanges free;
  std::vector<bool> committed;  // by huge page
  pid_t process = ::getpid();   // a forked child must not take blocks from it: its parent still does
};

}  // namespace

struct SharedArena::State {
  using Areas = std::list<Area>;  // a list: iterators stay valid

  struct Block {
    Areas::iterator area;
    std::size_t offset;
    std::size_t bytes;
  };

  explicit State(std::size_t bytes)
      : region_bytes(round_up(std::max<std::size_t>(bytes, 1), transport::shm::kHugePage)) {}

  Block take(std::size_t bytes);
  Block place(std::size_t bytes);
  void give_back(const Block& block);

  mutable std::mutex mutex;
  const std::size_t region_bytes;
  Areas areas;
  std::size_t large_blocks = 0;  // total so far
  std::size_t blocks = 0;        // in use now
  std::size_t block_bytes = 0;
};

SharedArena::State::Block SharedArena::State::take(std::size_t bytes) {
  if (bytes > ~std::size_t{0} / 4) Status::from_errno("shared memory", ENOMEM).throw_if_error();
  const std::unique_lock lock(mutex);
  const Block block = place(round_up(std::max<std::size_t>(bytes, 1), kAlignment));
  if (const Status status = block.area->commit(block.offset, block.bytes); !status.ok()) {
    block.area->free.give_back(block.offset, block.bytes);
    if (block.area->free.untouched()) areas.erase(block.area);
    status.throw_if_error();
  }
  ++blocks;
  block_bytes += block.bytes;
  return block;
}

/// Takes from the first region with room, or from a new one.
SharedArena::State::Block SharedArena::State::place(std::size_t bytes) {
  const pid_t process = ::getpid();
  const bool large = bytes >= transport::shm::kHugePage;
  const std::size_t alignment = large ? transport::shm::kHugePage : kAlignment;
  // Ranks are processes that were started one after the other, or threads: their colours differ.
  const std::size_t colour = (static_cast<std::size_t>(process) + large_blocks) % kColours;
  const std::size_t phase = large ? colour * kColourStep : 0;
  large_blocks += large;
  for (auto area = areas.begin(); area != areas.end(); ++area) {
    if (area->process != process) continue;
    if (const auto offset = area->free.take(bytes, alignment, phase)) return {area, *offset, bytes};
  }
  const std::size_t size = std::max(region_bytes, round_up(phase + bytes, transport::shm::kHugePage));
  const auto area =
      areas.emplace(areas.end(), transport::shm::Regions::instance().make(size).value_or_throw());
  return {area, *area->free.take(bytes, alignment, phase), bytes};
}

void SharedArena::State::give_back(const Block& block) {
  Areas gone;  // destroyed after the lock is released
  const std::unique_lock lock(mutex);
  --blocks;
  block_bytes -= block.bytes;
  block.area->free.give_back(block.offset, block.bytes);
  if (!block.area->free.untouched()) return;
  const auto spare = [&](const Area& area) {
    return &area != &*block.area && area.free.untouched() && area.process == ::getpid();
  };
  const bool usual = block.area->region->bytes() == region_bytes && block.area->process == ::getpid();
  if (!usual || std::ranges::any_of(areas, spare)) gone.splice(gone.end(), areas, block.area);
}

SharedArena::SharedArena(std::size_t region_bytes) : state_(std::make_shared<State>(region_bytes)) {}

SharedArena& SharedArena::instance() {
  static SharedArena* const arena = [] {
    // As for the regions, and before their handler: a thread that holds this lock takes theirs.
    transport::shm::Regions::instance();
    const auto unlock = [] { instance().state_->mutex.unlock(); };
    ::pthread_atfork([] { instance().state_->mutex.lock(); }, unlock, unlock);
    return new SharedArena;  // never destroyed: static objects may hold blocks
  }();
  return *arena;
}

/// Made while there is one thread, as the regions are.
[[maybe_unused]] static const SharedArena& kArenaAtLoad = SharedArena::instance();

std::shared_ptr<std::byte[]> SharedArena::allocate(std::size_t bytes) {
  const State::Block block = state_->take(bytes);
  const auto give_back = [state = state_, block](std::byte*) { state->give_back(block); };
  return {block.area->region->data() + block.offset, give_back};
}

SharedArena::Usage SharedArena::usage() const {
  const std::unique_lock lock(state_->mutex);
  Usage usage{.blocks = state_->blocks, .block_bytes = state_->block_bytes};
  for (const Area& area : state_->areas) {
    ++usage.regions;
    usage.region_bytes += area.region->bytes();
  }
  return usage;
}

}  // namespace kolo
