#include "net/peer_user.hpp"

#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <fstream>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>

#include <fmt/format.h>

#include "base/unique_fd.hpp"
#include "net/address.hpp"

namespace kolo::net {
namespace {

/// The format of /proc/net/tcp and tcp6.
std::string text_of(const SocketAddress& address) {
  std::string words;
  const std::string_view bytes = address.bytes();
  for (std::size_t at = 0; at < bytes.size(); at += sizeof(std::uint32_t)) {
    std::uint32_t word;
    std::memcpy(&word, bytes.data() + at, sizeof word);
    words += fmt::format("{:08X}", word);
  }
  return fmt::format("{}:{:04X}", words, address.port());
}

/// The owner of a socket. Without an inode it has no process: it is not accepted yet, or closed. Its `user`
/// means nothing then.
struct Owner {
  uid_t user = 0;
  std::uint64_t inode = 0;
};

/// Asks the kernel for one socket by its addresses.
std::optional<Owner> ask_kernel(const SocketAddress& from, const SocketAddress& to) {
  const UniqueFd netlink(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_SOCK_DIAG));
  if (!netlink.valid()) return std::nullopt;
  struct {
    nlmsghdr head{};
    inet_diag_req_v2 body{};
  } request;
  request.head.nlmsg_len = sizeof request;
  request.head.nlmsg_type = SOCK_DIAG_BY_FAMILY;
  request.head.nlmsg_flags = NLM_F_REQUEST;
  request.body.sdiag_family = static_cast<std::uint8_t>(from.family());
  request.body.sdiag_protocol = IPPROTO_TCP;
  request.body.idiag_states = ~0u;
  inet_diag_sockid& id = request.body.id;
  id.idiag_sport = htons(from.port());
  id.idiag_dport = htons(to.port());
  from.bytes().copy(reinterpret_cast<char*>(id.idiag_src), sizeof id.idiag_src);
  to.bytes().copy(reinterpret_cast<char*>(id.idiag_dst), sizeof id.idiag_dst);
  id.idiag_cookie[0] = id.idiag_cookie[1] = INET_DIAG_NOCOOKIE;
  alignas(nlmsghdr) std::array<char, 8192> reply;
  // The reply has arrived when send() returns.
  if (::send(netlink.get(), &request, sizeof request, 0) < 0) return std::nullopt;
  const ssize_t got = ::recv(netlink.get(), reply.data(), reply.size(), MSG_DONTWAIT);
  if (got < static_cast<ssize_t>(NLMSG_LENGTH(sizeof(inet_diag_msg)))) return std::nullopt;
  nlmsghdr head;
  inet_diag_msg found;
  std::memcpy(&head, reply.data(), sizeof head);
  if (head.nlmsg_type != SOCK_DIAG_BY_FAMILY) return std::nullopt;  // an error
  std::memcpy(&found, reply.data() + NLMSG_HDRLEN, sizeof found);
  return Owner{found.idiag_uid, found.idiag_inode};
}

/// Used if the kernel, or a sandbox, does not answer ask_kernel().
std::optional<Owner> look_into_table(const SocketAddress& from, const SocketAddress& to) {
  std::ifstream table(from.family() == AF_INET ? "/proc/net/tcp" : "/proc/net/tcp6");
  const std::string ends = fmt::format(" {} {} ", text_of(from), text_of(to));
  for (std::string line; std::getline(table, line);) {
    const auto at = line.find(ends);
    if (at == std::string::npos) continue;
    std::istringstream words(line.substr(at + ends.size()));
    std::string state, queues, timer, retransmits, timeout;
    Owner owner;
    if (words >> state >> queues >> timer >> retransmits >> owner.user >> timeout >> owner.inode)
      return owner;
  }
  return std::nullopt;
}

}  // namespace

Status same_user(int fd) {
  const auto here = SocketAddress::local(fd), there = SocketAddress::remote(fd);
  std::optional<Owner> owner;
  if (here && there) {
    owner = ask_kernel(*there, *here);
    if (!owner) owner = look_into_table(*there, *here);
  }
  constexpr const char* kWay = "without a key, ranks trust processes of their own user only: set KOLO_KEY";
  if (!owner || owner->inode == 0) {
    pollfd entry{fd, POLLRDHUP, 0};
    if (::poll(&entry, 1, 0) > 0) return Status(Code::peer_lost, "a process that has gone");
    return Status(Code::rendezvous,
                  fmt::format("a process of a user that neither the kernel nor /proc/net tells; {}", kWay));
  }
  if (owner->user == ::geteuid()) return {};
  return Status(Code::rendezvous,
                fmt::format("a process of user {}, and not of user {}; {}", owner->user, ::geteuid(), kWay));
}

}  // namespace kolo::net
