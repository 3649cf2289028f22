#include "transport/shm/endpoint.hpp"

#include <poll.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>

#include <fmt/format.h>

#include "transport/memory_fault.hpp"

namespace kolo::transport::shm {
namespace {

constexpr int kMostNotices = 4096;  // read at a time, so a peer cannot keep this loop busy
// Writes of a direction that go through the socket. Two are enough for a rank that ends: it says goodbye, or
// why it fails and then goodbye.
constexpr int kMostInSocket = 2;

/// Whether the kernel finds all pages of the memory mapped and writable. Writes to each of them.
bool can_write(std::span<std::byte> memory) {
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  std::byte zero{};
  for (std::size_t at = 0; at < memory.size();) {
    if (read_process(::getpid(), reinterpret_cast<std::uintptr_t>(&zero), memory.subspan(at, 1)) == EFAULT)
      return false;
    at += page - reinterpret_cast<std::uintptr_t>(memory.data() + at) % page;
  }
  return true;
}

std::size_t bytes_of(std::span<const iovec> parts) {
  std::size_t bytes = 0;
  for (const iovec& part : parts) bytes += part.iov_len;
  return bytes;
}

Status process_ended() {
  return Status(Code::peer_lost, "Connection closed by peer: its process has ended");
}
Status closed() {
  return Status(Code::peer_lost, "Connection closed by peer");
}
Status damaged() {
  return Status(Code::system, "the peer has damaged the shared ring");
}

}  // namespace

ForeignRegions::~ForeignRegions() {
  for (const auto& [id, mapped] : mapped_) ::munmap(mapped.data, mapped.bytes);
}

Status ForeignRegions::add(std::uint64_t id, std::size_t bytes, int fd) {
  if (id == 0 || knows(id)) return Status(Code::system, "the peer passed shared memory under a wrong name");
  const auto data = map_memfd(fd, bytes, true);
  if (!data.ok()) return data.status();
  mapped_[id] = {data.value(), bytes};
  return Status();
}

void ForeignRegions::remove(std::uint64_t id) {
  const auto found = mapped_.find(id);
  if (found == mapped_.end()) return;
  ::munmap(found->second.data, found->second.bytes);
  mapped_.erase(found);
}

std::byte* ForeignRegions::find(const RemoteRange& range, std::size_t bytes) const {
  const auto found = mapped_.find(range.region);
  if (found == mapped_.end()) return nullptr;
  const Mapped& mapped = found->second;
  const bool inside = range.offset <= mapped.bytes && bytes <= mapped.bytes - range.offset;
  return inside ? mapped.data + range.offset : nullptr;
}

ShmEndpoint::ShmEndpoint(Paired paired)
    : socket_(std::move(paired.socket)),
      pid_(paired.pid),
      reads_private_(paired.reads_private),
      memory_(std::move(paired.memory)),
      number_(paired.number),
      of_peer_(paired.of_peer),
      number_there_(paired.number_there),
      out_(memory_->ring_to(number_).control(), memory_->ring_to(number_).data(), kRingBytes),
      in_(of_peer_.ring.control(), of_peer_.ring.data(), kRingBytes) {}

ShmEndpoint::~ShmEndpoint() {
  if (writes_ring_) {
    out_.close();
  } else {
    socket_.send({.kind = NoticeKind::closed});
    of_peer_.mail->post(number_there_);
  }
  if (reads_ring_) in_.close();
}

std::string ShmEndpoint::describe() const {
  return "shm from process " + std::to_string(::getpid()) + " to process " + std::to_string(pid_);
}

/// Why the endpoint has ended; ok if it has not.
Status ShmEndpoint::state() const {
  if (!lost_.ok()) return lost_;
  if (out_.damaged() || in_.damaged()) return damaged();
  const bool has_closed = (writes_ring_ && out_.reader_closed()) || (reads_ring_ && in_.writer_closed());
  return has_closed ? closed() : Status();
}

Result<ShmEndpoint::Leaves> ShmEndpoint::begin_write(std::span<const iovec> parts) {
  const std::size_t bytes = bytes_of(parts);
  if (bytes == 0) return Leaves::not_now;
  // A peer that pulls must be able to learn from the ring that this rank has revoked.
  const bool fits = !has_exposed_ && sent_in_socket_ < kMostInSocket && bytes <= Notice::kMostBytes &&
                    parts.size() <= NoticeSocket::kMostParts;
  const auto sent =
      fits ? socket_.send({.kind = NoticeKind::bytes}, parts) : socket_.send({.kind = NoticeKind::ring});
  if (sent == NoticeSocket::Sent::no_room) return Leaves::not_now;
  if (sent == NoticeSocket::Sent::peer_gone) {
    take_notices();  // the peer's last words, and how it ended
    if (lost_.ok()) lost_ = process_ended();
    return lost_;
  }
  of_peer_.mail->post(number_there_);
  if (fits) {
    ++sent_in_socket_;
    return Leaves::in_socket;
  }
  writes_ring_ = true;
  return Leaves::in_ring;
}

Result<std::size_t> ShmEndpoint::write(std::span<const iovec> parts) {
  if (Status status = state(); !status.ok()) return status;
  if (!writes_ring_) {
    const auto leaves = begin_write(parts);
    if (!leaves.ok()) return leaves.status();
    if (*leaves == Leaves::not_now) return std::size_t{0};
    if (*leaves == Leaves::in_socket) return bytes_of(parts);
  }
  const std::size_t written = out_.write(parts, [this] { ring_peer(); });
  if (out_.damaged()) return damaged();
  return written;
}

/// Bytes that came through the socket come before those of the ring.
std::size_t ShmEndpoint::read_first_bytes(std::span<std::byte> into) {
  const std::size_t done = std::min(into.size(), first_bytes_.size());
  if (done == 0) return 0;
  std::memcpy(into.data(), first_bytes_.data(), done);
  if (done == first_bytes_.size()) {
    first_bytes_ = {};
  } else {
    first_bytes_.erase(first_bytes_.begin(), first_bytes_.begin() + static_cast<std::ptrdiff_t>(done));
  }
  return done;
}

Result<std::size_t> ShmEndpoint::read(std::span<std::byte> into) {
  if (!reads_ring_ && memory_->mail().take(number_)) take_notices();
  const auto read_what_is_there = [&] {
    const std::size_t done = read_first_bytes(into);
    return done > 0 || !reads_ring_ ? done : in_.read(into, [this] { ring_peer(); });
  };
  std::size_t done = read_what_is_there();
  if (done > 0 || into.empty()) return done;
  // The state is read first: what the peer wrote before its end is then in the socket or the ring.
  if (Status status = state(); !status.ok()) {
    if (!reads_ring_) take_notices();
    done = read_what_is_there();
    if (done == 0) return status;
  }
  return done;
}

void ShmEndpoint::ring_peer() {
  // A full socket has unread notices, which keep the peer's descriptor readable.
  if (socket_.send(Notice{}) == NoticeSocket::Sent::peer_gone && lost_.ok()) lost_ = process_ended();
}

/// Where a ring is not in use, the socket tells all. If there is no room for a notice, the caller tries again
/// later: no wake-up tells of room in a socket.
bool ShmEndpoint::arm(bool for_room) {
  forget_freed();
  const bool empty = first_bytes_.empty() && (!reads_ring_ || in_.sleep());
  const bool full = !for_room || !writes_ring_ || out_.wait_for_room();
  return empty && full && state().ok();
}

void ShmEndpoint::disarm() {
  if (reads_ring_) in_.stop_sleeping();
  if (writes_ring_) out_.stop_waiting();
}

bool ShmEndpoint::has_input() {
  return !first_bytes_.empty() || (reads_ring_ && in_.available() > 0);
}

Status ShmEndpoint::drain() {
  take_notices();
  forget_freed();
  return has_input() ? Status() : state();
}

void ShmEndpoint::take_notices() {
  try {
    if (!reads_ring_) first_bytes_.reserve(kMostInSocket * Notice::kMostBytes);
  } catch (const std::bad_alloc&) {
    return;  // the notices stay in the socket: a rank without memory must still be able to say so
  }
  for (int i = 0; i < kMostNotices; ++i) {
    auto received = socket_.receive();
    const auto what = received.what;
    if (what == NoticeSocket::Received::What::nothing) return;
    handle(received);
    if (what == NoticeSocket::Received::What::peer_gone) return;
  }
}

void ShmEndpoint::handle(NoticeSocket::Received& received) {
  using What = NoticeSocket::Received::What;
  if (received.what == What::peer_gone) {
    if (lost_.ok()) lost_ = reads_ring_ && in_.writer_closed() ? closed() : process_ended();
    return;
  }
  const Notice& notice = received.notice;
  const bool is_first_bytes = notice.kind == NoticeKind::bytes || notice.kind == NoticeKind::ring;
  if (received.what == What::nonsense || (is_first_bytes && reads_ring_)) return on_nonsense();
  switch (notice.kind) {
    case NoticeKind::doorbell:
      return;
    case NoticeKind::bytes:
      if (++come_in_socket_ > kMostInSocket) return on_nonsense();
      first_bytes_.insert(first_bytes_.end(), received.bytes, received.bytes + received.count);
      return;
    case NoticeKind::ring:
      reads_ring_ = true;
      return;
    case NoticeKind::closed:
      if (lost_.ok()) lost_ = closed();
      return;
    case NoticeKind::region:
      if (Status added = foreign_.add(notice.number[0], notice.number[1], received.descriptor.get());
          !added.ok()) {
        trouble_ = std::move(added);  // map() and reach() of that region will fail
      }
      return;
    case NoticeKind::forget:
      foreign_.remove(notice.number[0]);
      return;
    case NoticeKind::memory:
    case NoticeKind::verdict:
      return on_nonsense();
  }
}

void ShmEndpoint::on_nonsense() {
  lost_ = Status(Code::system, "the peer talks nonsense");
}

std::optional<RemoteRange> ShmEndpoint::expose(const void* data, std::size_t bytes) {
  if (!state().ok()) return std::nullopt;
  has_exposed_ = true;
  if (const auto shared = share(data, bytes)) return shared;
  if (reads_private_) return RemoteRange{0, reinterpret_cast<std::uintptr_t>(data)};
  return std::nullopt;
}

std::optional<RemoteRange> ShmEndpoint::share(const void* data, std::size_t bytes) {
  forget_freed();
  const auto* begin = static_cast<const std::byte*>(data);
  const auto is_inside = [&](const Shared& region) {
    return begin >= region.begin && begin < region.end &&
           bytes <= static_cast<std::size_t>(region.end - begin);
  };
  if (!is_inside(last_shared_)) {
    const auto region = Regions::instance().find(data, bytes);
    if (!region || !pass_on(region)) return std::nullopt;
    last_shared_ = {region->id(), region->data(), region->data() + region->bytes()};
  }
  return RemoteRange{last_shared_.id, static_cast<std::uint64_t>(begin - last_shared_.begin)};
}

std::byte* ShmEndpoint::reach(const RemoteRange& range, std::size_t bytes) {
  if (std::byte* data = foreign_.find(range, bytes)) return data;
  take_notices();  // the region's notice was sent before the range
  return foreign_.find(range, bytes);
}

/// Returns whether the peer has the region's descriptor, or will find it in its socket.
bool ShmEndpoint::pass_on(const std::shared_ptr<const Region>& region) {
  if (passed_on_.contains(region->id())) return true;
  const Notice notice{.kind = NoticeKind::region, .number = {region->id(), region->bytes()}};
  if (socket_.send(notice, region->fd()) != NoticeSocket::Sent::yes) return false;
  passed_on_[region->id()] = region;
  return true;
}

void ShmEndpoint::forget_freed() {
  const std::uint64_t freed = Regions::instance().freed();
  if (freed == freed_seen_) return;
  last_shared_ = {};
  for (auto entry = passed_on_.begin(); entry != passed_on_.end();) {
    if (!entry->second.expired()) {
      ++entry;
      continue;
    }
    const Notice notice{.kind = NoticeKind::forget, .number = {entry->first, 0}};
    if (socket_.send(notice) == NoticeSocket::Sent::no_room) return;  // the next call continues here
    entry = passed_on_.erase(entry);
  }
  freed_seen_ = freed;
}

Result<const std::byte*> ShmEndpoint::map(const RemoteRange& range, std::size_t bytes) {
  if (Status status = state(); !status.ok()) return status;
  if (range.region == 0) return nullptr;
  if (const std::byte* data = reach(range, bytes)) return data;
  if (Status status = state(); !status.ok()) return status;
  if (!trouble_.ok()) return trouble_;
  return Status(Code::system, "the peer named shared memory that it has not passed on");
}

Status ShmEndpoint::fetch(const RemoteRange& range, std::span<std::byte> into) {
  const auto mapped = map(range, into.size());
  if (!mapped.ok()) return mapped.status();
  if (mapped.value() != nullptr) {
    std::memcpy(into.data(), mapped.value(), into.size());
    return Status();
  }
  const int error = reads_private_ ? read_process(pid_, range.offset, into) : EPERM;
  // Checked after the read: if the peer is still alive now, the read was not from a process that reused its
  // pid.
  pollfd entry{socket_.fd(), 0, 0};
  if (error == ESRCH || (::poll(&entry, 1, 0) > 0 && (entry.revents & (POLLHUP | POLLERR)) != 0)) {
    take_notices();
    if (lost_.ok()) lost_ = process_ended();
    return lost_;
  }
  if (error == EFAULT) {
    const auto in_words = [&](std::uint64_t at) { return fmt::format("{:#x}, {} bytes", at, into.size()); };
    if (!can_write(into)) {
      return Status(kOwnMemoryFault, "what it receives cannot be written to " +
                                         in_words(reinterpret_cast<std::uintptr_t>(into.data())));
    }
    return Status(kPeerMemoryFault, "what it sends cannot be read from " + in_words(range.offset));
  }
  return error == 0 ? Status() : Status::from_errno("reading the peer's memory", error);
}

}  // namespace kolo::transport::shm
