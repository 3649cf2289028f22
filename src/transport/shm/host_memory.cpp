#include "transport/shm/host_memory.hpp"

#include <sys/mman.h>

#include <cerrno>
#include <new>
#include <string>
#include <utility>

#include "transport/local_peer.hpp"
#include "transport/shm/regions.hpp"

namespace kolo::transport::shm {
namespace {

// Rings are mapped one by one, so each begins with a page, also where pages have 64 KiB.
constexpr std::size_t kLargestPage = 64 << 10;
constexpr std::size_t kRingStride = round_up(RingPlace::kBytes, kLargestPage);
constexpr std::size_t kSegmentAt = round_up(sizeof(MailFlags), kSegmentAlignment);

std::size_t rings_behind(std::size_t segment_bytes) {
  return round_up(kSegmentAt + segment_bytes, kLargestPage);
}

}  // namespace

HostMemory::HostMemory(UniqueFd fd, std::size_t bytes, std::byte* own, std::size_t segment_bytes)
    : fd_(std::move(fd)), bytes_(bytes), own_(own), segment_bytes_(segment_bytes) {}

HostMemory::~HostMemory() {
  ::munmap(own_, bytes_);
  if (reserved_ != nullptr) ::munmap(reserved_, reserved_bytes_);
}

Result<std::shared_ptr<HostMemory>> HostMemory::make(std::size_t peers, std::size_t segment_bytes) {
  const std::size_t bytes = rings_behind(segment_bytes) + peers * kRingStride;
  auto fd = make_memfd("kolo-segment", bytes);
  if (!fd.ok()) return fd.status();
  const auto own = map_memfd(fd->get(), bytes, true);
  if (!own.ok()) return own.status();
  std::shared_ptr<HostMemory> made(new HostMemory(std::move(*fd), bytes, own.value(), segment_bytes));
  if (Status status = made->reserve(peers); !status.ok()) return status;
  return made;
}

Status HostMemory::reserve(std::size_t peers) {
  const std::size_t bytes = peers * peer_bytes() + kHugePage;
  void* const range = ::mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (range == MAP_FAILED) return Status::from_errno("mmap of " + std::to_string(bytes) + " bytes", errno);
  reserved_ = static_cast<std::byte*>(range);
  reserved_bytes_ = bytes;
  const auto address = reinterpret_cast<std::uintptr_t>(range);
  of_peers_ = reserved_ + (round_up(address, kHugePage) - address);
  return {};
}

std::size_t HostMemory::ring_at(std::size_t number) const {
  return rings_behind(segment_bytes_) + number * kRingStride;
}

/// Addresses for the memory of a peer.
std::size_t HostMemory::peer_bytes() const {
  return round_up(ring_at(1), kHugePage);
}

MailFlags& HostMemory::mail_in(std::byte* memory) {
  return *std::launder(reinterpret_cast<MailFlags*>(memory));
}

std::span<std::byte> HostMemory::segment_in(std::byte* memory) const {
  return {memory + kSegmentAt, segment_bytes_};
}

RingPlace HostMemory::ring_to(std::size_t peer) const {
  return RingPlace(own_ + ring_at(peer));
}

Result<HostMemory::OfPeer> HostMemory::map(std::size_t peer, int fd, std::uint64_t bytes,
                                           std::uint64_t number_there) const {
  if (Status status = check_memfd(fd, bytes); !status.ok()) return status;
  if (bytes < ring_at(1) || number_there > (bytes - ring_at(1)) / kRingStride)
    return Status(Code::system, "the peer passed shared memory without a ring for this rank");
  std::byte* const begin = of_peers_ + peer * peer_bytes();
  const std::size_t ring = ring_at(0);
  const auto map_part = [&](std::size_t at, std::size_t length, std::size_t from) {
    return ::mmap(begin + at, length, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd,
                  static_cast<off_t>(from)) != MAP_FAILED;
  };
  if (!map_part(0, ring, 0) || !map_part(ring, kRingStride, ring_at(number_there)))
    return Status::from_errno("mmap of a peer's memory", errno);
  ::madvise(begin, ring, MADV_HUGEPAGE);  // where the system allows it for shared memory
  return OfPeer{&mail_in(begin), segment_in(begin), RingPlace(begin + ring)};
}

}  // namespace kolo::transport::shm
