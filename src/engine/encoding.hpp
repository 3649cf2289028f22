// Encoding: one operation's messages in a wire format. Memory for what is under way, and the arithmetic.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/memory_pool.hpp"
#include "kernels/wire_format.hpp"

namespace kolo::engine {

/// Used by one thread at a time.
class Encoding {
 public:
  /// Call before an operation. None of its messages may be longer than `longest_message` bytes.
  void begin(Wire wire, std::uint64_t longest_message);
  bool is_native() const { return wire_ == Wire::native; }

  /// Returns the numbers in the wire format, in memory from the pool. The caller gives it back.
  MemoryPool::Block encode(const void* numbers, std::uint64_t count, MemoryPool& pool) const;

  /// The incomplete block of a message that is being received: it waits here for the rest of its bytes.
  using Unfinished = std::vector<std::byte>;
  /// Decodes the blocks that these bytes complete, and hands on the numbers in batches: take(first number,
  /// numbers, count). The bytes begin at `offset` of a message of `total` bytes. Only the message's last
  /// batch may end within a block.
  template <typename Take>
  void decode(Unfinished& unfinished, std::uint64_t offset, const std::byte* from, std::uint64_t size,
              std::uint64_t total, Take take);

  /// Rounds numbers as the wire does. The first one begins a block.
  void round(float* numbers, std::uint64_t count) const;

  /// Numbers in a batch: whole blocks of every format, which stay in L1 between two passes.
  static constexpr std::uint64_t kBatch = 2048;

 private:
  Wire wire_ = Wire::native;
  kernels::WireFormat format_;
  std::uint64_t longest_message_ = 0;
};

template <typename Take>
void Encoding::decode(Unfinished& unfinished, std::uint64_t offset, const std::byte* from, std::uint64_t size,
                      std::uint64_t total, Take take) {
  alignas(64) std::array<float, kBatch> numbers;
  const std::uint64_t block = format_.block_bytes();
  const auto hand_on = [&](std::uint64_t at, const std::byte* bytes, std::uint64_t length) {
    const std::uint64_t most = kBatch / format_.block * block;
    for (std::uint64_t done = 0; done < length; done += most) {
      const std::uint64_t count = format_.numbers(std::min(most, length - done));
      format_.decode(numbers.data(), bytes + done, count);
      take((at + done) / block * format_.block, numbers.data(), count);
    }
  };
  const auto keep = [&](std::uint64_t at, std::uint64_t length) {
    unfinished.resize(block);
    std::copy_n(from, length, unfinished.begin() + static_cast<std::ptrdiff_t>(at));
  };
  if (const std::uint64_t waiting = offset % block; waiting > 0) {
    const std::uint64_t length = std::min(block - waiting, size);
    keep(waiting, length);
    from += length, size -= length, offset += length;
    if (offset % block == 0 || offset == total)
      hand_on(offset - waiting - length, unfinished.data(), waiting + length);
    if (size == 0) return;
  }
  const std::uint64_t whole = offset + size == total ? size : size / block * block;
  hand_on(offset, from, whole);
  from += whole;
  if (whole < size) keep(0, size - whole);
}

}  // namespace kolo::engine
