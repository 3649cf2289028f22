// Encoding: one operation's messages in a wire format. Memory for what is under way, and the arithmetic.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "engine/memory_pool.hpp"
#include "kernels/wire_format.hpp"

namespace kolo {

/// Used by one thread at a time.
class Encoding {
 public:
  /// Before an operation of which no message is longer.
  void begin(Wire wire, std::uint64_t longest_message);
  bool is_native() const { return wire_ == Wire::native; }

  /// The numbers in the wire format, in memory from the pool, to be given back.
  MemoryPool::Block encode(const void* numbers, std::uint64_t count, MemoryPool& pool) const;

  /// A message on its way in: a piece may end in the middle of a block, which waits for the rest of it.
  using Unfinished = std::vector<std::byte>;
  /// Hands on what has become whole with these bytes, from `offset` of a message of `total`, in batches:
  /// take(first number, numbers, count); only the message's last batch ends within a block.
  template <typename Take>
  void decode(Unfinished& unfinished, std::uint64_t offset, const std::byte* from, std::uint64_t size,
              std::uint64_t total, Take take);

  /// Rounds numbers, from the beginning of a block on, as the wire does.
  void round(float* numbers, std::uint64_t count) const;

  /// So many numbers, whole blocks of every format, stay in L1 between two passes.
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

}  // namespace kolo
