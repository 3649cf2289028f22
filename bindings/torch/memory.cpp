#include "memory.hpp"

#include <atomic>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <utility>

#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>

#include "kolo/arena.hpp"
#include "kolo/error.hpp"

namespace kolo::pytorch {
namespace {

/// Below it, a collective copies through memory of its own anyway.
constexpr std::size_t kShortest = std::size_t{64} << 10;
constexpr std::size_t kMostKept = std::size_t{1} << 30;

using Block = std::shared_ptr<std::byte[]>;

/// Blocks that are free again. SharedArena returns empty regions to the system, and a training step that
/// frees all its activations would fetch them anew each time.
class Kept {
 public:
  Block take(std::size_t bytes) {
    const std::unique_lock lock(mutex_, std::try_to_lock);  // in a forked child, another thread may hold it
    const auto found = lock ? blocks_.find(bytes) : blocks_.end();
    if (!lock || found == blocks_.end()) return nullptr;
    bytes_ -= bytes;
    return std::move(blocks_.extract(found).mapped());
  }
  void put(Block block, std::size_t bytes) {
    const std::unique_lock lock(mutex_, std::try_to_lock);
    if (!lock || bytes_ + bytes > kMostKept) return;
    blocks_.emplace(bytes, std::move(block));
    bytes_ += bytes;
  }

 private:
  std::mutex mutex_;
  std::multimap<std::size_t, Block> blocks_;
  std::size_t bytes_ = 0;
};

thread_local int sharing_here = 0;
std::atomic<bool> sharing_all{false};

/// Never destroyed: tensors may outlive the statics of a process.
Kept& kept() {
  static auto* const instance = new Kept;
  return *instance;
}

struct Holder {
  Block block;
  std::size_t bytes;
};

void release(void* holder) {
  const std::unique_ptr<Holder> held(static_cast<Holder*>(holder));
  if (sharing_all) kept().put(std::move(held->block), held->bytes);
}

class SharingAllocator final : public c10::Allocator {
 public:
  explicit SharingAllocator(c10::Allocator* usual) : usual_(usual) {}

  // Later versions dropped `const`.
  c10::DataPtr allocate(std::size_t bytes) { return std::as_const(*this).allocate(bytes); }
  c10::DataPtr allocate(std::size_t bytes) const {
    if (bytes < kShortest || (sharing_here == 0 && !sharing_all.load(std::memory_order_relaxed)))
      return usual_->allocate(bytes);
    Block block = kept().take(bytes);
    try {
      if (block == nullptr) block = SharedArena::instance().allocate(bytes);
    } catch (const SystemError&) {
      return usual_->allocate(bytes);
    }
    void* const data = block.get();
    return {data, new Holder{std::move(block), bytes}, release, at::kCPU};
  }
  c10::DeleterFnPtr raw_deleter() const override { return usual_->raw_deleter(); }
  void copy_data(void* to, const void* from, std::size_t bytes) const { std::memcpy(to, from, bytes); }

 private:
  c10::Allocator* const usual_;
};

/// Stays for good, since storages refer to their allocator.
void install() {
  static const auto* const installed = [] {
    auto* const made = new SharingAllocator(c10::GetCPUAllocator());
    c10::SetCPUAllocator(made);
    return made;
  }();
  static_cast<void>(installed);
}

}  // namespace

void share_in_this_thread(bool on) {
  install();
  sharing_here += on ? 1 : -1;
}

void share_in_all_threads(bool on) {
  install();
  sharing_all = on;
}

}  // namespace kolo::pytorch
