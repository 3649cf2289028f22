// The byte ring: wrapping, pieces, wake-ups, and a peer that writes invalid values into the shared part.
#include "transport/byte_ring.hpp"

#include <cstring>
#include <memory>
#include <vector>

#include "unit/transport/support.hpp"

namespace kolo::testing {
namespace {

struct Ring {
  static constexpr std::size_t kCapacity = 256 << 10;
  std::unique_ptr<transport::RingControl> control = std::make_unique<transport::RingControl>();
  std::vector<std::byte> data = std::vector<std::byte>(kCapacity);
  transport::RingWriter writer{control.get(), data.data(), kCapacity};
  transport::RingReader reader{control.get(), data.data(), kCapacity};
  int reader_rung = 0, writer_rung = 0;

  std::size_t write(std::span<const std::byte> bytes) {
    const iovec part{const_cast<std::byte*>(bytes.data()), bytes.size()};
    return writer.write({&part, 1}, [this] { ++reader_rung; });
  }
  std::size_t read(std::span<std::byte> into) {
    return reader.read(into, [this] { ++writer_rung; });
  }
};

TEST(ByteRing, WrapsAroundWithoutLosingAByte) {
  Ring ring;
  const auto data = pattern(5 << 20, 1);
  std::vector<std::byte> out(data.size());
  std::mt19937 random(2);
  std::size_t sent = 0, received = 0;
  while (received < data.size()) {
    sent += ring.write(
        std::span(data).subspan(sent, std::min<std::size_t>(data.size() - sent, random() % 300'000)));
    const std::size_t size = std::min<std::size_t>(out.size() - received, random() % 300'000);
    received += ring.read(std::span(out).subspan(received, size));
    ASSERT_LE(sent - received, Ring::kCapacity);
  }
  EXPECT_TRUE(out == data);
}

TEST(ByteRing, GathersPartsAndStopsWhenFull) {
  Ring ring;
  const auto data = pattern(Ring::kCapacity, 3);
  iovec parts[4] = {{const_cast<std::byte*>(data.data()), 10},
                    {nullptr, 0},
                    {const_cast<std::byte*>(data.data() + 10), data.size() - 10},
                    {const_cast<std::byte*>(data.data()), 100}};
  EXPECT_EQ(ring.writer.write(parts, [] {}), Ring::kCapacity);
  EXPECT_FALSE(ring.writer.has_room());
  EXPECT_EQ(ring.write(data), 0u);
  std::vector<std::byte> out(data.size() + 1);
  EXPECT_EQ(ring.read(out), data.size());
  EXPECT_EQ(std::memcmp(out.data(), data.data(), data.size()), 0);
}

TEST(ByteRing, ASleepingReaderIsRungOnce) {
  Ring ring;
  const auto data = pattern(100, 4);
  EXPECT_EQ(ring.write(data), 100u);
  EXPECT_EQ(ring.reader_rung, 0) << "nobody slept";
  EXPECT_FALSE(ring.reader.sleep()) << "there is something to read";
  ring.reader.stop_sleeping();
  std::vector<std::byte> out(200);
  EXPECT_EQ(ring.read(out), 100u);
  EXPECT_TRUE(ring.reader.sleep());
  ring.write(data);
  ring.write(data);
  EXPECT_EQ(ring.reader_rung, 1);
}

TEST(ByteRing, AWaitingWriterIsRungWhenAGoodPartIsFree) {
  Ring ring;
  const auto data = pattern(Ring::kCapacity, 5);
  ring.write(data);
  EXPECT_TRUE(ring.writer.wait_for_room());
  std::vector<std::byte> out(Ring::kCapacity);
  ring.read(std::span(out).first(1000));
  EXPECT_EQ(ring.writer_rung, 0);
  ring.read(std::span(out).first(Ring::kCapacity / 4));
  EXPECT_EQ(ring.writer_rung, 1);
  EXPECT_FALSE(ring.writer.wait_for_room());
}

TEST(ByteRing, ReaderWhoTakesEverythingAlwaysWakesTheWriter) {
  Ring ring;
  const auto data = pattern(Ring::kCapacity, 6);
  ring.write(data);
  std::vector<std::byte> out(Ring::kCapacity);
  ring.read(std::span(out).first(Ring::kCapacity - 10));
  ring.write(data);  // refills while the reader is between two reads
  EXPECT_TRUE(ring.writer.wait_for_room());
  while (ring.read(std::span(out).first(777)) > 0) {
  }
  EXPECT_EQ(ring.writer_rung, 1);
}

TEST(ByteRing, PositionsThatCannotBeAreNotBelieved) {
  for (const std::uint64_t nonsense : {Ring::kCapacity + 1, std::uint64_t{1} << 40, ~std::uint64_t{0}}) {
    Ring ring;
    ring.control->head = nonsense;
    std::vector<std::byte> out(64);
    EXPECT_EQ(ring.read(out), 0u);
    EXPECT_TRUE(ring.reader.damaged());
    ring.control->head = 10;
    EXPECT_EQ(ring.read(out), 0u) << "damage is for good";
  }
  for (const std::uint64_t nonsense :
       {std::uint64_t{Ring::kCapacity + 1}, std::uint64_t{1} << 40, ~std::uint64_t{0}}) {
    Ring ring;
    const auto data = pattern(Ring::kCapacity, 7);
    ring.write(std::span(data).first(100));
    ring.control->tail = nonsense;
    ring.write(data);  // may fill the room that was known to be free
    EXPECT_EQ(ring.write(data), 0u);
    EXPECT_TRUE(ring.writer.damaged());
  }
}

TEST(ByteRing, RevocationAndClosingAreSeen) {
  Ring ring;
  EXPECT_FALSE(ring.reader.writer_revoked());
  ring.writer.revoke();
  EXPECT_TRUE(ring.reader.writer_revoked());
  EXPECT_FALSE(ring.reader.writer_closed());
  ring.writer.close();
  EXPECT_TRUE(ring.reader.writer_closed());
  EXPECT_FALSE(ring.writer.reader_closed());
  ring.reader.close();
  EXPECT_TRUE(ring.writer.reader_closed());
}

}  // namespace
}  // namespace kolo::testing
