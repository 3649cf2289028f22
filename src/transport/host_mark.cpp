#include "transport/host_mark.hpp"

#include <sys/socket.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>

#include <fmt/format.h>

#include "base/deadline.hpp"
#include "base/log.hpp"
#include "net/hmac.hpp"
#include "net/socket.hpp"
#include "transport/host.hpp"

namespace kolo::transport {
namespace {

constexpr std::chrono::seconds kFirstRankTime{3};  // with the first rank, between its two calls of bind()
constexpr int kNoRank = -1;

/// Calls bind() or connect() with an address that only the job's ranks can guess. Returns errno, or 0.
/// Datagram sockets: a connection leaves nothing in the queue of the other end.
int call(int (*function)(int, const sockaddr*, socklen_t), UniqueFd& fd, std::string_view job, int rank) {
  if (!fd.valid()) fd = UniqueFd(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!fd.valid()) return errno;
  return net::call_with_abstract_address(
      function, fd.get(), "kolo-host-" + net::hmac_digits(job, fmt::format("host mark {}", rank)));
}

}  // namespace

HostMark::HostMark(std::string_view job, int rank, int size) : name_(std::to_string(rank)) {
  const Deadline deadline = Deadline::after(kFirstRankTime);
  UniqueFd probe;
  int error;
  do {
    error = call(::bind, job_, job, kNoRank);
    if (error == 0) error = call(::bind, rank_, job, rank);
    if (error == 0) return;
    if (error != EADDRINUSE) break;
    // Ranks of one host tend to have numbers close to each other.
    for (int distance = 1; distance < size; ++distance) {
      for (const int first : {rank - distance, rank + distance}) {
        if (first < 0 || first >= size || call(::connect, probe, job, first) != 0) continue;
        name_ = std::to_string(first);
        return;
      }
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  } while (!deadline.passed());
  const std::string told = boot_id() + '-' + namespace_of("net");
  const bool is_told = error != EADDRINUSE && told.front() != '-' && told.back() != '-';
  if (is_told) name_ = told;
  log().log(is_told ? spdlog::level::info : spdlog::level::warn,
            "rank {}: no Unix socket proves which ranks share its host ({}); {}", rank,
            error == EADDRINUSE ? "the first one there cannot be reached" : std::strerror(error),
            is_told ? "it trusts the kernel's boot id" : "it takes itself to be alone");
}

}  // namespace kolo::transport
