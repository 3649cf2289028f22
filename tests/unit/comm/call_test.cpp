// The check of a call refuses wrong arguments, in particular counts whose sum wraps around.
#include "comm/call.hpp"

#include <gtest/gtest.h>

#include "comm/state.hpp"
#include "engine/control.hpp"

namespace kolo {
namespace {

constexpr std::uint64_t kHalf = std::uint64_t{1} << 63;

Status checked(schedule::Collective collective, std::uint64_t in, std::uint64_t out, const Counts& counts,
               const Counts& recv = {}, DType dtype = DType::float64) {
  static double memory[64];
  comm::Call call{
      .collective = collective, .in = ConstBuffer(memory, in, dtype), .out = Buffer(memory + 32, out, dtype)};
  schedule::CallKey key;
  return comm::check(call, 0, 2, counts, recv, key);
}

TEST(Call, CountsThatWrapAroundAreRefused) {
  const std::vector<std::uint64_t> wraps{kHalf, kHalf + 4};  // 4 in 64 bits
  const std::vector<std::uint64_t> own{4, ~0ull};            // 3
  const std::vector<std::uint64_t> bytes{4, std::uint64_t{1} << 61};
  for (const auto& counts : {wraps, own, bytes}) {
    std::uint64_t sum = 0;
    for (const std::uint64_t count : counts) sum += count;
    EXPECT_EQ(checked(schedule::Collective::reduce_scatter, sum, counts[0], counts).code(),
              Code::invalid_argument);
    EXPECT_EQ(checked(schedule::Collective::all_gather, counts[0], sum, counts).code(),
              Code::invalid_argument);
    EXPECT_EQ(checked(schedule::Collective::scatter, sum, counts[0], counts).code(), Code::invalid_argument);
    EXPECT_EQ(checked(schedule::Collective::gather, counts[0], sum, counts).code(), Code::invalid_argument);
    EXPECT_EQ(checked(schedule::Collective::all_to_all, sum, sum, counts, counts).code(),
              Code::invalid_argument);
  }
}

TEST(Call, CountsThatNoMemoryHoldsAreRefused) {
  for (const std::uint64_t count : {kHalf, ~std::uint64_t{0}, std::uint64_t{1} << 61}) {
    EXPECT_EQ(checked(schedule::Collective::all_reduce, count, count, {}).code(), Code::invalid_argument);
    EXPECT_EQ(checked(schedule::Collective::gather, count, 2 * count, {}).code(), Code::invalid_argument);
    EXPECT_EQ(checked(schedule::Collective::scatter, 2 * count, count, {}, {}, DType::uint8).code(),
              Code::invalid_argument);
  }
}

TEST(Call, APrefixHasNoAverage) {
  std::vector<double> data(4);
  comm::Call call{.collective = schedule::Collective::scan,
                  .in = ConstBuffer(data),
                  .out = Buffer(data),
                  .reduction = ReduceOp::average};
  schedule::CallKey key;
  EXPECT_NE(comm::check(call, 0, 2, {}, {}, key).message().find("scan: a prefix has no average"),
            std::string::npos);
  call.reduction = ReduceOp::sum;
  EXPECT_TRUE(comm::check(call, 0, 2, {}, {}, key).ok());
}

TEST(Call, WhatIsRightPasses) {
  const std::vector<std::uint64_t> counts{4, 3};
  EXPECT_TRUE(checked(schedule::Collective::reduce_scatter, 7, 4, counts).ok());
  EXPECT_TRUE(checked(schedule::Collective::all_gather, 4, 7, counts).ok());
  EXPECT_TRUE(checked(schedule::Collective::scatter, 7, 4, counts).ok());
  EXPECT_TRUE(checked(schedule::Collective::gather, 4, 7, counts).ok());
  EXPECT_TRUE(checked(schedule::Collective::all_to_all, 7, 7, counts, counts).ok());
  EXPECT_TRUE(checked(schedule::Collective::gather, 4, 8, {}).ok());
}

TEST(Call, AnElementTypeThatIsNoneIsRefused) {
  EXPECT_EQ(checked(schedule::Collective::all_reduce, 4, 4, {}, {}, static_cast<DType>(77)).code(),
            Code::invalid_argument);
}

TEST(Call, AnySignatureCanBePutIntoWords) {
  for (int value = 0; value < 256; ++value) {
    const auto byte = static_cast<std::uint8_t>(value);
    for (int collective = 0; collective < 12; ++collective) {
      const transport::Signature signature{
          static_cast<std::uint8_t>(collective), byte, byte, byte, -value, ~0ull, 0};
      EXPECT_FALSE(comm::describe(signature).empty());
    }
  }
}

TEST(Control, OnlyWholeFailuresAreDecoded) {
  const engine::Failure failure{Code::mismatch, 3, std::string(5000, 'x')};
  const auto bytes = engine::encode(failure);
  const auto decoded = engine::decode_failure(bytes);
  ASSERT_TRUE(decoded.has_value());
  EXPECT_EQ(decoded->code, Code::mismatch);
  EXPECT_EQ(decoded->blamed, 3);
  EXPECT_EQ(decoded->reason, std::string(4096, 'x'));
  for (std::size_t size = 0; size < 8; ++size) {
    EXPECT_FALSE(engine::decode_failure(std::span(bytes).first(size)).has_value());
  }
  for (const int code : {0, 99, 255}) {
    auto wrong = bytes;
    wrong[0] = static_cast<std::byte>(code);
    EXPECT_FALSE(engine::decode_failure(wrong).has_value());
  }
  auto longer = bytes;
  longer.resize(bytes.size() + 1);
  EXPECT_FALSE(engine::decode_failure(longer).has_value());
  EXPECT_FALSE(
      engine::from_payload<engine::Ping>(std::span(bytes).first(sizeof(engine::Ping) - 1)).has_value());
  const engine::Ping ping{7, 0, 9, {}};
  EXPECT_EQ(engine::from_payload<engine::Ping>(engine::as_payload(ping))->sequence, 9u);
}

}  // namespace
}  // namespace kolo
