#include "doctor/examination.hpp"

#include <fmt/format.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <memory>
#include <utility>

#include "base/config.hpp"
#include "base/cores.hpp"
#include "base/file_size_limit.hpp"
#include "base/unique_fd.hpp"
#include "device/gpu.hpp"
#include "device/nccl.hpp"
#include "kolo/error.hpp"
#include "kolo/memory.hpp"
#include "kolo/version.hpp"
#include "net/address.hpp"
#include "net/hmac.hpp"

namespace kolo::doctor {
namespace {

std::uint64_t limit(__rlimit_resource_t what) {
  rlimit found{};
  return ::getrlimit(what, &found) == 0 ? found.rlim_cur : 0;
}

std::string try_memfd() {
  constexpr std::size_t kBytes = 1 << 21;
  const FileSizeLimit limit;
  const UniqueFd fd(::memfd_create("kolo-doctor", MFD_CLOEXEC));
  if (!fd.valid() || ::ftruncate(fd.get(), kBytes) != 0) return std::strerror(errno);
  void* data = ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0);
  if (data == MAP_FAILED) return std::strerror(errno);
  std::memset(data, 1, kBytes);
  ::munmap(data, kBytes);
  return {};
}

/// A child that reads from its parent has the same rights as one rank reading from another.
std::string try_direct_read() {
  int ours = 7;
  const pid_t parent = ::getpid();
  const pid_t child = ::fork();
  if (child < 0) return std::strerror(errno);
  if (child == 0) {
    int theirs = 0;
    const iovec local{&theirs, sizeof theirs};
    const iovec remote{&ours, sizeof ours};
    const bool read = ::process_vm_readv(parent, &local, 1, &remote, 1, 0) == sizeof theirs && theirs == 7;
    ::_exit(read ? 0 : errno);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  if (!WIFEXITED(status)) return "the system ends processes that try";  // for example a seccomp filter
  return status == 0 ? std::string() : std::strerror(WEXITSTATUS(status));
}

/// The word in brackets: "never" of "always advise [never]".
std::string chosen_of(const char* path) {
  std::ifstream file(path);
  for (std::string word; file >> word;) {
    if (word.starts_with('[')) return word.substr(1, word.size() - 2);
  }
  return "unknown";
}

/// Tests what the kernel grants, because kolo can get huge pages although the setting is "never".
std::string try_huge_pages() {
  constexpr std::size_t kHugePage = 2 << 20;
  try {
    const SharedMemory memory(kHugePage);
    std::memset(memory.data(), 1, kHugePage);
    std::ifstream file("/proc/self/smaps_rollup");
    for (std::string word; file >> word;) {
      std::uint64_t kilobytes = 0;
      if (word == "ShmemPmdMapped:" && file >> kilobytes && kilobytes > 0) return {};
    }
  } catch (const Error& error) {
    return error.what();
  }
  return fmt::format("none was granted (shmem_enabled is {})",
                     chosen_of("/sys/kernel/mm/transparent_hugepage/shmem_enabled"));
}

int mtu_of(int socket, const std::string& interface) {
  ifreq request{};
  interface.copy(request.ifr_name, sizeof request.ifr_name - 1);
  return ::ioctl(socket, SIOCGIFMTU, &request) == 0 ? request.ifr_mtu : 0;
}

}  // namespace

Facts gather_facts(int rank, const std::string& place) {
  Facts facts;
  facts.rank = rank;
  facts.place = place;
  char name[256] = "";
  facts.host = ::gethostname(name, sizeof name - 1) == 0 ? name : "?";
  facts.version = version();
  if (!job_key().empty()) {
    facts.key = net::hmac_digits(job_key(), "kolo doctor's fingerprint").substr(0, 16);
  }
  facts.interface = config().interface;
  facts.cores = to_text(usable_cores());
  facts.files = limit(RLIMIT_NOFILE);
  facts.locked = limit(RLIMIT_MEMLOCK);
  facts.memfd = try_memfd();
  facts.direct_read = try_direct_read();
  facts.huge_pages = try_huge_pages();
  if (auto gpus = device::names_of_gpus(); gpus.ok()) {
    facts.gpus = std::move(gpus).value();
    const auto nccl = device::Nccl::instance();
    if (nccl.ok()) facts.nccl = device::Nccl::text_of(nccl.value()->version());
    facts.nccl_from = nccl.ok() ? nccl.value()->path() : nccl.status().message();
  } else {
    facts.no_gpus = gpus.status().message();
  }
  return facts;
}

Card card_of(int socket) {
  const auto here = net::SocketAddress::local(socket);
  if (!here) return {};
  Card card;
  card.address = here->host();
  card.family = here->family() == AF_INET6 ? "IPv6" : "IPv4";
  card.loopback = here->is_loopback();
  ifaddrs* raw = nullptr;
  if (::getifaddrs(&raw) != 0) return card;
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> list(raw, ::freeifaddrs);
  for (const ifaddrs* entry = raw; entry; entry = entry->ifa_next) {
    const auto address = entry->ifa_addr ? net::SocketAddress::from(entry->ifa_addr) : std::nullopt;
    if (address && address->bytes() == here->bytes()) card.name = entry->ifa_name;
  }
  card.mtu = mtu_of(socket, card.name);
  return card;
}

}  // namespace kolo::doctor
