// What converts to a buffer, to counts and to a name, and what they keep.
#include "kolo/buffer.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <deque>
#include <memory>
#include <ranges>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "kolo/communicator.hpp"

namespace kolo {
namespace {

using Floats = std::vector<float>;

// Whatever outlives the call converts, a span also where it is a temporary.
static_assert(std::is_convertible_v<Floats&, Buffer> && std::is_convertible_v<float (&)[3], Buffer>);
static_assert(std::is_convertible_v<std::span<float>, Buffer>);
static_assert(std::is_convertible_v<const Floats&, BorrowedConstBuffer>);
static_assert(std::is_convertible_v<Floats&, BorrowedConstBuffer>);
static_assert(std::is_convertible_v<std::span<const float>, BorrowedConstBuffer>);
static_assert(std::is_convertible_v<Buffer, BorrowedConstBuffer>);
static_assert(std::is_convertible_v<ConstBuffer, BorrowedConstBuffer>);
// Read-only memory takes no result.
static_assert(!std::is_convertible_v<const Floats&, Buffer>);
static_assert(!std::is_convertible_v<std::span<const float>, Buffer>);
// A temporary takes no result either, and is gone before an asynchronous call reads it.
static_assert(!std::is_constructible_v<Buffer, Floats> && !std::is_constructible_v<Buffer, float[3]>);
static_assert(!std::is_constructible_v<BorrowedConstBuffer, Floats>);
static_assert(!std::is_constructible_v<BorrowedConstBuffer, const Floats>);
static_assert(!std::is_constructible_v<BorrowedConstBuffer, std::array<float, 3>>);
// A blocking call may read one.
static_assert(std::is_convertible_v<Floats, ConstBuffer>);

// A range of what converts is a list, a temporary one if it does not own the memory.
using Lists = std::vector<Floats>;
static_assert(std::is_convertible_v<Lists&, BufferList> && std::is_convertible_v<Lists&, ConstBufferList>);
static_assert(std::is_convertible_v<const Lists&, BorrowedConstBufferList>);
static_assert(std::is_convertible_v<std::vector<Buffer>, BufferList>);
static_assert(std::is_convertible_v<std::vector<Buffer>, BorrowedConstBufferList>);
static_assert(std::is_convertible_v<std::vector<std::span<float>>, BufferList>);
static_assert(std::is_convertible_v<Lists, ConstBufferList>);
static_assert(!std::is_convertible_v<const Lists&, BufferList> && !std::is_convertible_v<Lists, BufferList>);
static_assert(!std::is_convertible_v<Lists, BorrowedConstBufferList>);
// A view that makes each vector when it is read has none that a call could read.
constexpr auto kMake = std::views::transform([](int i) { return Floats(3, static_cast<float>(i)); });
static_assert(!std::is_convertible_v<decltype(std::views::iota(0, 2) | kMake), ConstBufferList>);
static_assert(!std::is_convertible_v<Floats&, BufferList> && !std::is_convertible_v<Lists&, Buffer>);

template <typename In>
concept CanSendAsync = requires(Communicator& communicator, In&& in) {
  communicator.send_async(std::forward<In>(in), 0);
};
template <typename In>
concept CanReduceAsync = requires(Communicator& communicator, In&& in, Floats& out) {
  communicator.all_reduce_async(std::forward<In>(in), out);
  communicator.all_gather_async(std::forward<In>(in), out);
};
template <typename In>
concept CanReduce = requires(Communicator& communicator, In&& in, Floats& out) {
  communicator.all_reduce(std::forward<In>(in), out);
};
static_assert(CanSendAsync<Floats&> && CanReduceAsync<const Floats&> && CanReduceAsync<std::span<float>>);
static_assert(!CanSendAsync<Floats> && !CanReduceAsync<Floats> && CanReduce<Floats>);

TEST(Buffer, HasTheElementsOfItsRange) {
  Floats floats(3);
  const Buffer buffer = floats;
  EXPECT_EQ(buffer.data, floats.data());
  EXPECT_EQ(buffer.count, 3u);
  EXPECT_EQ(buffer.dtype, DType::float32);
  const BorrowedConstBuffer read = std::as_const(floats);
  EXPECT_EQ(read.data, floats.data());
  EXPECT_EQ(read.bytes(), 12u);
}

/// A type of the program's own that keeps its memory.
struct Matrix {
  Floats numbers;
};

}  // namespace

template <>
struct BufferTraits<Matrix> {
  static Buffer of(const Matrix& matrix) {
    return {const_cast<float*>(matrix.numbers.data()),
            matrix.numbers.size(),
            DType::float32,
            {DeviceKind::cuda, 1}};
  }
};

namespace {

static_assert(CanReduceAsync<Matrix&> && CanReduceAsync<const Matrix&> && CanReduce<Matrix>);
static_assert(!CanReduceAsync<Matrix> && !std::is_constructible_v<Buffer, Matrix>);

TEST(Buffer, ComesFromATypeWithTraits) {
  Matrix matrix{Floats(6)};
  const Buffer buffer = matrix;
  EXPECT_EQ(buffer.data, matrix.numbers.data());
  EXPECT_EQ(buffer.count, 6u);
}

TEST(Buffer, KeepsItsDevice) {
  EXPECT_EQ(Buffer().device, Device());
  EXPECT_EQ(Device().kind, DeviceKind::host);
  const Matrix matrix{Floats(6)};
  const ConstBuffer read = Buffer(matrix);
  EXPECT_EQ(read.device, (Device{DeviceKind::cuda, 1}));
  EXPECT_EQ(BorrowedConstBuffer(read).device, read.device);
}

static_assert(!std::is_convertible_v<const char*, Counts> && !std::is_convertible_v<std::string, Counts>);
static_assert(!std::is_convertible_v<std::vector<bool>, Counts> && !std::is_convertible_v<Floats, Counts>);

std::vector<std::uint64_t> values_of(const Counts& counts) {
  const std::span<const std::uint64_t> values = counts;
  return {values.begin(), values.end()};
}

TEST(Counts, ComeFromAnyRangeOfIntegers) {
  const std::vector<std::uint64_t> expected = {3, 0, 70'000};
  EXPECT_EQ(values_of(std::vector<int>{3, 0, 70'000}), expected);
  EXPECT_EQ(values_of(std::deque<std::int64_t>{3, 0, 70'000}), expected);
  EXPECT_EQ(values_of(std::array<std::uint32_t, 3>{3, 0, 70'000}), expected);
  EXPECT_EQ(values_of(expected | std::views::transform([](auto n) { return static_cast<long>(n); })),
            expected);
  EXPECT_EQ(values_of({}), std::vector<std::uint64_t>());
  EXPECT_EQ(values_of({3, 0, 70'000}), expected);
}

TEST(Counts, CopiesHaveTheSameNumbers) {
  Counts counts = std::vector<int>{1, 2};
  const Counts copy = counts;
  counts = {};
  EXPECT_EQ(values_of(copy), (std::vector<std::uint64_t>{1, 2}));
  EXPECT_EQ(values_of(counts), std::vector<std::uint64_t>());
}

TEST(Counts, WideOnesAreBorrowedButNotThoseOfATemporary) {
  const std::vector<std::uint64_t> wide = {1, 2};
  EXPECT_EQ(std::span<const std::uint64_t>(Counts(wide)).data(), wide.data());
  auto gone = std::make_unique<std::vector<std::uint64_t>>(wide);
  const Counts counts = std::move(*gone);
  std::ranges::fill(*gone, 7);
  EXPECT_EQ(values_of(counts), wide);
}

TEST(BufferList, KeepsTheBuffersOfATemporary) {
  Floats floats(3);
  std::vector<Buffer> gone{floats, floats};
  const BufferList list = std::move(gone);
  std::ranges::fill(gone, Buffer());
  EXPECT_EQ(list.buffers()[1].data, floats.data());
}

TEST(Name, OutlivesTheTextThatItWasMadeOf) {
  CallOptions options;
  EXPECT_TRUE(options.algorithm.empty());
  {
    std::string text = "an algorithm with a long name";
    options.algorithm = text;
    options.label = text.substr(3);
    text.assign(text.size(), '-');
  }
  EXPECT_EQ(std::string_view(options.algorithm), "an algorithm with a long name");
  EXPECT_EQ(std::string_view(options.label), "algorithm with a long name");
  EXPECT_EQ(std::string_view(Name("ring")).data(), std::string_view(Name(std::string("ring"))).data());
}

}  // namespace
}  // namespace kolo
