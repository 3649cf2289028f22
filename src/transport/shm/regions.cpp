#include "transport/shm/regions.hpp"

#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <mutex>
#include <string>
#include <utility>

#include "base/file_size_limit.hpp"
#include "base/free_memory.hpp"
#include "transport/local_peer.hpp"

namespace kolo::transport::shm {
namespace {

// Linux 5.14 and 6.1; older headers lack the names.
constexpr int kPopulateWrite = 23;
constexpr int kCollapse = 25;

// Committing this much takes thirty times as long as free_memory().
constexpr std::size_t kMuch = std::size_t{16} << 20;

constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

std::size_t page_size() {
  static const auto kSize = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  return kSize;
}

/// Maps all of `fd`. Huge pages need an address that is a multiple of their size, which mmap() does not
/// choose: this cuts one out of a longer range.
void* map_aligned(int fd, std::size_t bytes, int protection) {
  if (bytes < kHugePage) return ::mmap(nullptr, bytes, protection, MAP_SHARED, fd, 0);
  const std::size_t reserved = bytes + kHugePage;
  void* const range =
      ::mmap(nullptr, reserved, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (range == MAP_FAILED) return MAP_FAILED;
  auto* const begin = static_cast<std::byte*>(range);
  const auto address = reinterpret_cast<std::uintptr_t>(range);
  auto* const aligned = begin + (round_up(address, kHugePage) - address);
  if (::mmap(aligned, bytes, protection, MAP_SHARED | MAP_FIXED, fd, 0) == MAP_FAILED) {
    const int error = errno;
    ::munmap(range, reserved);
    errno = error;
    return MAP_FAILED;
  }
  auto* const end = aligned + round_up(bytes, page_size());
  if (aligned != begin) ::munmap(begin, static_cast<std::size_t>(aligned - begin));
  if (end != begin + reserved) ::munmap(end, static_cast<std::size_t>(begin + reserved - end));
  return aligned;
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
  static std::mutex one_at_a_time;  // a second caller also returns only after the pages are copied
  const std::lock_guard lock(one_at_a_time);
  if (detached_.exchange(true, std::memory_order_acq_rel)) return;
  Regions::instance().note_detached();  // before the mapping changes
  // A write, even of the same bytes, makes a page of a private mapping this process's own copy.
  void* data = ::mmap(data_, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED, fd_.get(), 0);
  if (data == MAP_FAILED) return;
  const auto touch = [this](off_t from, off_t to) {
    for (off_t at = from; at < to; at += static_cast<off_t>(page_size())) {
      // Atomic, so that no store of another thread is lost. Relaxed: it orders nothing.
      __atomic_fetch_or(reinterpret_cast<unsigned char*>(data_ + at), 0, __ATOMIC_RELAXED);
    }
  };
  // Parts that were never written need no copy.
  for (off_t from = 0; (from = ::lseek(fd_.get(), from, SEEK_DATA)) >= 0;) {
    const off_t to = ::lseek(fd_.get(), from, SEEK_HOLE);
    if (to < 0) return touch(from, static_cast<off_t>(bytes_));
    touch(from, to);
    from = to;
  }
}

void Region::leave_to_parent() const {
  if (detached_.exchange(true)) return;  // the pages are private copies already
  ::mmap(data_, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED | MAP_NORESERVE, fd_.get(), 0);
}

Status Region::commit(std::size_t offset, std::size_t bytes) const {
  const std::size_t begin = offset / kHugePage * kHugePage;
  const std::size_t end = std::min(bytes_, round_up(offset + bytes, kHugePage));
  // Check now: the kernel hands out pages of memory files until there are none, and never refuses in time.
  if (const std::uint64_t left = end - begin >= kMuch ? free_memory() : end - begin; end - begin > left) {
    return Status::from_errno("shared memory: " + std::to_string(end - begin) +
                                  " bytes, while the system or its " + "control groups have " +
                                  std::to_string(left) + " left",
                              ENOMEM);
  }
  // Touch the first page of each huge page, then let the kernel fill in the rest. This is eight times as fast
  // as one fault for each page, and grants huge pages where faults would not (shmem_enabled "never"). If the
  // kernel grants none, or is too old for the call, fallocate() below gets ordinary pages.
  const std::size_t huge_end = end / kHugePage * kHugePage;
  if (begin < huge_end) {
    for (std::size_t at = begin; at < huge_end; at += kHugePage) {
      if (::madvise(data_ + at, page_size(), kPopulateWrite) != 0) break;
    }
    ::madvise(data_ + begin, huge_end - begin, kCollapse);
  }
  const FileSizeLimit limit;
  // Allocate now, while an error can be returned: a page that is missing when it is touched kills the
  // process.
  while (::fallocate(fd_.get(), 0, static_cast<off_t>(begin), static_cast<off_t>(end - begin)) != 0) {
    if (errno != EINTR) {
      return Status::from_errno("shared memory: " + std::to_string(end - begin) + " bytes", errno);
    }
  }
  return Status();
}

Result<UniqueFd> make_memfd(const char* name, std::size_t bytes) {
  if (bytes > ~std::size_t{0} / 2) return Status::from_errno("shared memory", ENOMEM);
  UniqueFd fd(::memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd.valid()) return Status::from_errno("memfd_create", errno);
  const std::size_t size = round_up(bytes, page_size());
  const FileSizeLimit limit;
  if (::ftruncate(fd.get(), static_cast<off_t>(size)) != 0) {
    return Status::from_errno("shared memory of " + std::to_string(size) + " bytes", errno);
  }
  if (::fcntl(fd.get(), F_ADD_SEALS, kSeals) != 0) return Status::from_errno("memfd seals", errno);
  return fd;
}

Status check_memfd(int fd, std::size_t bytes) {
  // The system drops a descriptor in flight if the receiver has no room for it.
  if (fd < 0) return Status::from_errno("shared memory that the peer passed on", EMFILE);
  struct stat info {};
  if (::fstat(fd, &info) != 0) return Status::from_errno("memfd", errno);
  const int seals = ::fcntl(fd, F_GET_SEALS);
  if (seals < 0 || (seals & F_SEAL_SHRINK) == 0 || bytes == 0 ||
      static_cast<std::uint64_t>(info.st_size) != bytes) {
    return Status(Code::system, "the peer passed shared memory that is not what it said");
  }
  return {};
}

Result<std::byte*> map_memfd(int fd, std::size_t bytes, bool writable) {
  if (Status status = check_memfd(fd, bytes); !status.ok()) return status;
  void* data = map_aligned(fd, bytes, writable ? PROT_READ | PROT_WRITE : PROT_READ);
  if (data == MAP_FAILED) return Status::from_errno("mmap of " + std::to_string(bytes) + " bytes", errno);
  if (bytes >= kHugePage)
    ::madvise(data, bytes, MADV_HUGEPAGE);  // where the system allows it for shared memory
  return static_cast<std::byte*>(data);
}

Regions& Regions::instance() {
  static auto* const instance = [] {
    // Otherwise a forked child could inherit the lock from a thread that does not exist in the child, held
    // for ever.
    const auto private_in_child = [] {
      for (const auto& [address, region] : Regions::instance().by_address_) {
        if (const auto live = region.lock()) live->leave_to_parent();
      }
      Regions::instance().mutex_.unlock();
    };
    ::pthread_atfork([] { Regions::instance().mutex_.lock(); }, [] { Regions::instance().mutex_.unlock(); },
                     private_in_child);
    return new Regions;  // never destroyed: static objects may hold shared memory
  }();
  return *instance;
}

/// Made while there is one thread: otherwise a fork could inherit a half-made object from another thread.
[[maybe_unused]] static const Regions& kRegionsAtLoad = Regions::instance();

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
  const std::lock_guard lock(mutex_);
  by_address_[begin] = region;
  return region;
}

void Regions::forget(Region* region) {
  {
    // Before the memory is unmapped: another mapping may take its addresses right afterwards.
    const std::lock_guard lock(mutex_);
    by_address_.erase(reinterpret_cast<std::uintptr_t>(region->data()));
  }
  freed_.fetch_add(1, std::memory_order_release);
  delete region;
}

std::shared_ptr<const Region> Regions::find(const void* data, std::size_t bytes) const {
  const auto begin = reinterpret_cast<std::uintptr_t>(data);
  std::shared_ptr<const Region> region;  // outlives the lock: forget() takes it if this was the last one
  const std::lock_guard lock(mutex_);
  auto after = by_address_.upper_bound(begin);
  if (after == by_address_.begin()) return nullptr;
  region = std::prev(after)->second.lock();
  if (!region || region->detached()) return nullptr;
  const std::size_t offset = begin - reinterpret_cast<std::uintptr_t>(region->data());
  return offset <= region->bytes() && bytes <= region->bytes() - offset ? region : nullptr;
}

}  // namespace kolo::transport::shm

namespace kolo::transport {

void detach_shared_memory(const void* data, std::size_t bytes) {
  if (const auto region = shm::Regions::instance().find(data, bytes)) {
    region->detach();
  }
}

std::uint64_t shared_memory_losses() {
  return shm::Regions::instance().freed();
}

}  // namespace kolo::transport
