#include "engine/encoding.hpp"

namespace kolo {

void Encoding::begin(Wire wire, std::uint64_t longest_message) {
  if (wire != wire_) format_ = kernels::wire_format(wire);
  wire_ = wire;
  if (is_native()) return;
  if (longest_message > buffer_bytes_) {
    buffers_.clear();
    buffer_bytes_ = longest_message;
  }
  free_.clear();
  for (const auto& buffer : buffers_) free_.push_back(buffer.get());
}

std::byte* Encoding::encode(const void* numbers, std::uint64_t count) {
  if (free_.empty()) {
    buffers_.push_back(std::make_unique_for_overwrite<std::byte[]>(buffer_bytes_));
    free_.push_back(buffers_.back().get());
  }
  std::byte* bytes = free_.back();
  free_.pop_back();
  format_.encode(bytes, numbers, count);
  return bytes;
}

void Encoding::round(float* numbers, std::uint64_t count) const {
  std::array<std::byte, kBatch * sizeof(float)> bytes;
  for (std::uint64_t done = 0; done < count; done += kBatch) {
    const std::uint64_t now = std::min(kBatch, count - done);
    format_.encode(bytes.data(), numbers + done, now);
    format_.decode(numbers + done, bytes.data(), now);
  }
}

}  // namespace kolo
