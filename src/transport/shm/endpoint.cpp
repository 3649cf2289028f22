#include "transport/shm/endpoint.hpp"

#include <poll.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include <fmt/format.h>

#include "transport/memory_fault.hpp"

namespace kolo::transport::shm {
namespace {

constexpr int kMostNotices = 4096;  // read at a time, so a peer cannot keep this loop busy

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

Status process_ended() {
  return Status(Code::peer_lost, "connection closed by the peer: its process has ended");
}
Status closed() {
  return Status(Code::peer_lost, "connection closed by the peer");
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
      own_board_(std::move(paired.own_segment)),
      segment_(std::move(paired.segment)),
      memory_(std::move(paired.memory)),
      out_(memory_.control(paired.acceptor ? 0 : 1), memory_.data(paired.acceptor ? 0 : 1), kRingBytes),
      in_(memory_.control(paired.acceptor ? 1 : 0), memory_.data(paired.acceptor ? 1 : 0), kRingBytes) {}

ShmEndpoint::~ShmEndpoint() {
  out_.close();
  in_.close();
}

std::string ShmEndpoint::describe() const {
  return "shm from process " + std::to_string(::getpid()) + " to process " + std::to_string(pid_);
}

/// Why the endpoint has ended; ok if it has not.
Status ShmEndpoint::state() const {
  if (!lost_.ok()) return lost_;
  if (out_.damaged() || in_.damaged()) return damaged();
  return out_.reader_closed() || in_.writer_closed() ? closed() : Status();
}

Result<std::size_t> ShmEndpoint::write(std::span<const iovec> parts) {
  if (Status status = state(); !status.ok()) return status;
  const std::size_t written = out_.write(parts, [this] { ring_peer(); });
  if (out_.damaged()) return damaged();
  return written;
}

Result<std::size_t> ShmEndpoint::read(std::span<std::byte> into) {
  std::size_t done = in_.read(into, [this] { ring_peer(); });
  if (done > 0 || into.empty()) return done;
  // The state is read first: what the peer wrote before its end is then in the ring.
  if (Status status = state(); !status.ok()) {
    done = in_.read(into, [] {});
    if (done == 0) return status;
  }
  return done;
}

void ShmEndpoint::ring_peer() {
  // A full socket has unread notices, which keep the peer's descriptor readable.
  if (socket_.send(Notice{}) == NoticeSocket::Sent::peer_gone && lost_.ok()) lost_ = process_ended();
}

bool ShmEndpoint::arm(bool for_room) {
  forget_freed();
  const bool empty = in_.sleep();
  const bool full = !for_room || out_.wait_for_room();
  return empty && full && state().ok();
}

void ShmEndpoint::disarm() {
  in_.stop_sleeping();
  out_.stop_waiting();
}

Status ShmEndpoint::drain() {
  take_notices();
  forget_freed();
  return in_.available() > 0 ? Status() : state();
}

void ShmEndpoint::take_notices() {
  for (int i = 0; i < kMostNotices; ++i) {
    auto received = socket_.receive();
    const auto what = received.what;
    if (what == NoticeSocket::Received::What::nothing) return;
    handle(std::move(received));
    if (what == NoticeSocket::Received::What::peer_gone) return;
  }
}

void ShmEndpoint::handle(NoticeSocket::Received received) {
  using What = NoticeSocket::Received::What;
  if (received.what == What::peer_gone) {
    if (lost_.ok()) lost_ = in_.writer_closed() ? closed() : process_ended();
    return;
  }
  const Notice& notice = received.notice;
  if (received.what == What::notice && notice.kind == NoticeKind::doorbell) return;
  if (received.what == What::notice && notice.kind == NoticeKind::forget) {
    foreign_.remove(notice.number[0]);
    return;
  }
  if (received.what == What::notice && notice.kind == NoticeKind::region) {
    Status added = foreign_.add(notice.number[0], notice.number[1], received.descriptor.get());
    if (!added.ok()) trouble_ = std::move(added);  // map() and reach() of that region will fail
    return;
  }
  lost_ = Status(Code::system, "the peer talks nonsense");
}

std::optional<RemoteRange> ShmEndpoint::expose(const void* data, std::size_t bytes) {
  if (!state().ok()) return std::nullopt;
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
    if (lost_.ok()) lost_ = in_.writer_closed() ? closed() : process_ended();
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
