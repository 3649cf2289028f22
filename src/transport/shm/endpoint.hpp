// The shm endpoint: two rings in shared memory, and a Unix socket that wakes the peer, passes descriptors and
// reports its death.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>

#include "transport/endpoint.hpp"
#include "transport/shm/pairing.hpp"
#include "transport/shm/regions.hpp"

namespace kolo::transport::shm {

/// The regions of a peer, mapped for reading and writing. One thread at a time.
class ForeignRegions {
 public:
  ForeignRegions() = default;
  ForeignRegions(const ForeignRegions&) = delete;
  ForeignRegions& operator=(const ForeignRegions&) = delete;
  ~ForeignRegions();

  Status add(std::uint64_t id, std::size_t bytes, int fd);
  void remove(std::uint64_t id);
  bool knows(std::uint64_t id) const { return mapped_.contains(id); }
  /// Null if the range is not all inside one known region.
  std::byte* find(const RemoteRange& range, std::size_t bytes) const;

 private:
  struct Mapped {
    std::byte* data;
    std::size_t bytes;
  };
  std::unordered_map<std::uint64_t, Mapped> mapped_;
};

/// can_pull() is always true: memory from SharedMemory can be pulled over every shm endpoint. Whether private
/// memory can be pulled was probed when connecting; if not, expose() of it returns nullopt.
class ShmEndpoint final : public Endpoint, private LocalPeer {
 public:
  explicit ShmEndpoint(Paired paired);
  ~ShmEndpoint() override;

  std::string_view transport() const override { return "shm"; }
  std::string describe() const override;
  Result<std::size_t> write(std::span<const iovec> parts) override;
  Result<std::size_t> read(std::span<std::byte> into) override;
  bool polls_are_free() const override { return true; }
  int fd() const override { return socket_.fd(); }
  bool arm(bool for_room) override;
  void disarm() override;
  Status drain() override;
  bool can_pull() const override { return true; }
  std::optional<RemoteRange> expose(const void* data, std::size_t bytes) override;
  Result<const std::byte*> map(const RemoteRange& range, std::size_t bytes) override;
  Status fetch(const RemoteRange& range, std::span<std::byte> into) override;
  void revoke() override { out_.revoke(); }
  bool revoked() const override { return in_.writer_revoked(); }
  LocalPeer* local_peer() override { return this; }

 private:
  SharedSegment& own_segment() override { return *own_board_->memory.get(); }
  SharedSegment& segment() override { return *segment_.get(); }
  void ring() override { ring_peer(); }
  std::optional<RemoteRange> share(const void* data, std::size_t bytes) override;
  std::byte* reach(const RemoteRange& range, std::size_t bytes) override;
  const Status& trouble() const override { return trouble_; }

  void ring_peer();
  void take_notices();
  void handle(NoticeSocket::Received received);
  bool pass_on(const std::shared_ptr<const Region>& region);
  void forget_freed();
  Status state() const;

  NoticeSocket socket_;
  pid_t pid_;
  bool reads_private_;
  std::shared_ptr<OwnSegment> own_board_;
  SegmentMemory segment_;
  RingMemory memory_;
  RingWriter out_;
  RingReader in_;
  Status lost_;
  ForeignRegions foreign_;
  Status trouble_;  // of the latest region that could not be mapped
  std::unordered_map<std::uint64_t, std::weak_ptr<const Region>> passed_on_;
  std::uint64_t freed_seen_ = 0;
  /// The region of the last share(): most programs share the same few regions. Reset when a region is freed.
  struct Shared {
    std::uint64_t id = 0;
    const std::byte* begin = nullptr;
    const std::byte* end = nullptr;
  };
  Shared last_shared_;
};

}  // namespace kolo::transport::shm
