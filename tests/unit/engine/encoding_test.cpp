// Encoding: messages that come in pieces of any size.
#include "engine/encoding.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>
#include <utility>
#include <vector>

namespace kolo {
namespace {

std::vector<float> waves(std::uint64_t count) {
  std::vector<float> numbers(count);
  for (std::uint64_t i = 0; i < count; ++i)
    numbers[i] = std::sin(static_cast<float>(i)) * static_cast<float>(i % 97);
  return numbers;
}

TEST(Encoding, PutsTogetherWhatComesInPieces) {
  std::mt19937 random(3);
  for (const Wire wire : {Wire::bfloat16, Wire::float16, Wire::int8}) {
    const kernels::WireFormat format = kernels::wire_format(wire);
    engine::Encoding encoding;
    MemoryPool pool;
    encoding.begin(wire, format.bytes(10'000));
    for (const std::uint64_t count : {1u, 255u, 256u, 257u, 2048u, 2049u, 10'000u}) {
      const std::vector<float> numbers = waves(count);
      MemoryPool::Block block = encoding.encode(numbers.data(), count, pool);
      const std::byte* bytes = block.memory.get();
      std::vector<float> expected(count);
      format.decode(expected.data(), bytes, count);
      const std::uint64_t total = format.bytes(count);
      for (const std::uint64_t most : {std::uint64_t{8}, std::uint64_t{40}, std::uint64_t{1000}, total}) {
        std::vector<float> got(count, -1);
        std::uint64_t next = 0;
        engine::Encoding::Unfinished unfinished;
        for (std::uint64_t offset = 0; offset < total;) {
          // In pieces as a Link passes them: multiples of 8 bytes, except the last one.
          const std::uint64_t piece = most == total ? total : (random() % (most / 8) + 1) * 8;
          const std::uint64_t size = std::min(piece, total - offset);
          encoding.decode(unfinished, offset, bytes + offset, size, total,
                          [&](std::uint64_t first, const float* from, std::uint64_t length) {
                            ASSERT_EQ(first, next);
                            ASSERT_LE(length, engine::Encoding::kBatch);
                            std::copy_n(from, length, got.begin() + static_cast<std::ptrdiff_t>(first));
                            next += length;
                          });
          offset += size;
        }
        EXPECT_EQ(next, count);
        EXPECT_EQ(got, expected) << name_of(wire) << ", " << count << " in pieces of up to " << most;
      }
      std::vector<float> rounded = numbers;
      encoding.round(rounded.data(), count);
      EXPECT_EQ(rounded, expected) << name_of(wire);
      pool.give_back(std::move(block));
    }
  }
}

}  // namespace
}  // namespace kolo
