// The shm endpoint: two rings in shared memory, and a Unix socket that wakes the peer, carries the first
// short messages, passes descriptors and reports the peer's death.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "transport/byte_ring.hpp"
#include "transport/endpoint.hpp"
#include "transport/local_peer.hpp"
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

/// Most pairs of many ranks exchange a few short messages and no more, each direction as few as one. The
/// first short writes go through the socket, so that neither side touches the memory of a ring. A direction
/// that goes on, or that has more to say, moves to its ring for good: the notice `ring` marks the place.
///
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
  void revoke() override {
    if (has_exposed_) out_.revoke();
  }
  bool revoked() const override { return in_.writer_revoked(); }
  LocalPeer* local_peer() override { return memory_->segment().empty() ? nullptr : this; }

 private:
  std::span<std::byte> own_segment() override { return memory_->segment(); }
  std::span<std::byte> segment() override { return of_peer_.segment; }
  void ring() override { ring_peer(); }
  std::optional<RemoteRange> share(const void* data, std::size_t bytes) override;
  std::byte* reach(const RemoteRange& range, std::size_t bytes) override;
  const Status& trouble() const override { return trouble_; }

  /// How the bytes of a write leave that finds the ring unused.
  enum class Leaves { not_now, in_socket, in_ring };
  Result<Leaves> begin_write(std::span<const iovec> parts);
  std::size_t read_first_bytes(std::span<std::byte> into);
  bool has_input();
  void ring_peer();
  void take_notices();
  void handle(NoticeSocket::Received& received);
  void on_nonsense();
  bool pass_on(const std::shared_ptr<const Region>& region);
  void forget_freed();
  Status state() const;

  NoticeSocket socket_;
  pid_t pid_;
  bool reads_private_;
  bool has_exposed_ = false;
  std::shared_ptr<HostMemory> memory_;
  std::size_t number_;
  HostMemory::OfPeer of_peer_;
  std::size_t number_there_;
  RingWriter out_;
  RingReader in_;
  bool writes_ring_ = false;  // the notice `ring` has left
  bool reads_ring_ = false;   // the peer's has come
  int sent_in_socket_ = 0;    // writes
  int come_in_socket_ = 0;
  std::vector<std::byte> first_bytes_;  // that have come through the socket and have not been read
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
