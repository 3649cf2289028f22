#include "engine/encoding.hpp"

namespace kolo::engine {

void Encoding::begin(Wire wire, std::uint64_t longest_message) {
  if (wire != wire_) format_ = kernels::wire_format(wire);
  wire_ = wire;
  longest_message_ = longest_message;
}

MemoryPool::Block Encoding::encode(const void* numbers, std::uint64_t count, MemoryPool& pool) const {
  MemoryPool::Block block = pool.take(longest_message_);  // one size for all messages
  format_.encode(block.memory.get(), numbers, count);
  return block;
}

void Encoding::round(float* numbers, std::uint64_t count) const {
  std::array<std::byte, kBatch * sizeof(float)> bytes;
  for (std::uint64_t done = 0; done < count; done += kBatch) {
    const std::uint64_t now = std::min(kBatch, count - done);
    format_.encode(bytes.data(), numbers + done, now);
    format_.decode(numbers + done, bytes.data(), now);
  }
}

}  // namespace kolo::engine
