#include "transport/shm/regions.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <mutex>
#include <utility>

#include "transport/board.hpp"

namespace kolo::shm {
namespace {

constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
constexpr std::size_t kHugePage = 2 << 20;

std::size_t page_size() {
  static const auto kSize = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  return kSize;
}

}  // namespace

Region::Region(std::uint64_t id, UniqueFd fd, std::byte* data, std::size_t bytes)
    : id_(id), fd_(std::move(fd)), data_(data), bytes_(bytes), owner_(::getpid()) {}

Region::~Region() {
  ::munmap(data_, bytes_);
  if (::getpid() == owner_) {
    ::fallocate(fd_.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, static_cast<off_t>(bytes_));
  }
}

void Region::detach() const {
  if (detached_.exchange(true, std::memory_order_acq_rel)) return;
  // Written to, if only with what is there, a page of a private mapping becomes a copy of its own.
  void* data = ::mmap(data_, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED, fd_.get(), 0);
  if (data == MAP_FAILED) return;
  for (std::size_t at = 0; at < bytes_; at += page_size()) {
    __atomic_fetch_or(reinterpret_cast<unsigned char*>(data_ + at), 0, __ATOMIC_RELAXED);
  }
}

Result<UniqueFd> make_memfd(const char* name, std::size_t bytes) {
  if (bytes > ~std::size_t{0} / 2) return Status::from_errno("shared memory", ENOMEM);
  UniqueFd fd(::memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd.valid()) return Status::from_errno("memfd_create", errno);
  const std::size_t size = (bytes + page_size() - 1) / page_size() * page_size();
  if (::ftruncate(fd.get(), static_cast<off_t>(size)) != 0) {
    return Status::from_errno("shared memory of " + std::to_string(size) + " bytes", errno);
  }
  if (::fcntl(fd.get(), F_ADD_SEALS, kSeals) != 0) return Status::from_errno("memfd seals", errno);
  return fd;
}

Result<std::byte*> map_memfd(int fd, std::size_t bytes, bool writable) {
  struct stat info {};
  if (::fstat(fd, &info) != 0) return Status::from_errno("memfd", errno);
  const int seals = ::fcntl(fd, F_GET_SEALS);
  if (seals < 0 || (seals & F_SEAL_SHRINK) == 0 || bytes == 0 ||
      static_cast<std::uint64_t>(info.st_size) != bytes) {
    return Status(Code::system, "the peer passed shared memory that is not what it said");
  }
  void* data = ::mmap(nullptr, bytes, writable ? PROT_READ | PROT_WRITE : PROT_READ, MAP_SHARED, fd, 0);
  if (data == MAP_FAILED) return Status::from_errno("mmap of " + std::to_string(bytes) + " bytes", errno);
  if (bytes >= kHugePage)
    ::madvise(data, bytes, MADV_HUGEPAGE);  // where the system allows it for shared memory
  return static_cast<std::byte*>(data);
}

Regions& Regions::instance() {
  static auto* const instance = new Regions;  // never destroyed: static objects may hold shared memory
  return *instance;
}

Result<std::shared_ptr<Region>> Regions::make(std::size_t bytes) {
  auto fd = make_memfd("kolo", std::max<std::size_t>(bytes, 1));
  if (!fd.ok()) return fd.status();
  struct stat info {};
  if (::fstat(fd->get(), &info) != 0) return Status::from_errno("memfd", errno);
  const auto size = static_cast<std::size_t>(info.st_size);
  const auto data = map_memfd(fd->get(), size, true);
  if (!data.ok()) return data.status();
  const auto id = next_id_.fetch_add(1);
  const std::shared_ptr<Region> region(new Region(id, std::move(*fd), data.value(), size),
                                       [this](Region* gone) { forget(gone); });
  const auto begin = reinterpret_cast<std::uintptr_t>(data.value());
  const std::unique_lock lock(mutex_);
  by_address_[begin] = region;
  lowest_.store(std::min(lowest_.load(), begin));
  highest_.store(std::max(highest_.load(), begin + size));
  return region;
}

void Regions::forget(Region* region) {
  {
    // Before the memory is unmapped: its addresses may be somebody else's the moment after.
    const std::unique_lock lock(mutex_);
    by_address_.erase(reinterpret_cast<std::uintptr_t>(region->data()));
  }
  delete region;
  freed_.fetch_add(1, std::memory_order_release);
}

std::shared_ptr<const Region> Regions::find(const void* data, std::size_t bytes) const {
  const auto begin = reinterpret_cast<std::uintptr_t>(data);
  if (begin < lowest_.load(std::memory_order_relaxed) || begin >= highest_.load(std::memory_order_relaxed)) {
    return nullptr;
  }
  const std::shared_lock lock(mutex_);
  auto after = by_address_.upper_bound(begin);
  if (after == by_address_.begin()) return nullptr;
  auto region = std::prev(after)->second.lock();
  if (!region || region->detached()) return nullptr;
  const std::size_t offset = begin - reinterpret_cast<std::uintptr_t>(region->data());
  return offset <= region->bytes() && bytes <= region->bytes() - offset ? region : nullptr;
}

}  // namespace kolo::shm

namespace kolo {

bool is_shared_memory(const void* data, std::size_t bytes) {
  return shm::Regions::instance().find(data, bytes) != nullptr;
}

void detach_shared_memory(const void* data, std::size_t bytes) {
  if (const auto region = shm::Regions::instance().find(data, bytes)) region->detach();
}

}  // namespace kolo
