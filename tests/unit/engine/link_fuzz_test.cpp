// The fuzzer's entry with frames that are almost right, from a fixed seed.
#include <gtest/gtest.h>

#include "fuzz/link_fuzz.cpp"

namespace kolo::test {
namespace {

void put(std::vector<std::uint8_t>& input, const void* data, std::size_t size) {
  const auto* bytes = static_cast<const std::uint8_t*>(data);
  input.insert(input.end(), bytes, bytes + size);
}

TEST(LinkFuzz, SurvivesFramesThatAreAlmostRight) {
  std::mt19937 random(20240);
  for (int round = 0; round < 4000; ++round) {
    std::vector<std::uint8_t> input{static_cast<std::uint8_t>(random())};
    const std::uint32_t frames = 1 + random() % 12;
    for (std::uint32_t f = 0; f < frames; ++f) {
      const std::uint32_t i = random() % 7;
      const Message like({1, i, 1}, i % 2 == 0 ? 16 * i : 9000 + i);
      transport::FrameHeader header;
      header.type = static_cast<transport::FrameType>(1 + random() % 6);
      header.acknowledged = random() % 4 == 0;
      header.tag = like.tag;
      header.bytes = random() % 8 == 0 ? random() : like.bytes;
      header.signature = like.call;
      header.range.region = transport::FrameHeader::kNoRange;
      put(input, &header, sizeof header);
      const bool has_payload =
          header.type == transport::FrameType::eager || header.type == transport::FrameType::control;
      const std::vector<std::uint8_t> payload(has_payload ? std::min<std::uint64_t>(header.bytes, 10'000) : 0,
                                              7);
      put(input, payload.data(), payload.size());
    }
    for (std::uint32_t m = random() % 3; m > 0; --m) {
      input[random() % input.size()] ^= static_cast<std::uint8_t>(1u << random() % 8);
    }
    ASSERT_EQ(LLVMFuzzerTestOneInput(input.data(), input.size()), 0);
  }
}

}  // namespace
}  // namespace kolo::test
