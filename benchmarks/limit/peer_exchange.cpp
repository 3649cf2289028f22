// The limit of sockets as a peer of kolo bench: each process of a ring sends to its right neighbour the bytes
// of the best all-reduce, 2 (N-1)/N of its data, while it receives as many from the left. Nothing is summed.
// The processes use the loopback of one host, or each is in a host of an emulated cluster.
#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sched.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "forks.hpp"
#include "peer.hpp"

namespace kolo::bench {
namespace {

constexpr std::size_t kTurn = 512 * 1024;         // the fastest value for 4 MiB and more
constexpr std::size_t kWorthWaking = 256 * 1024;  // bytes

int check(int result, const char* what) {
  if (result < 0) throw std::runtime_error(fmt::format("{}: {}", what, std::strerror(errno)));
  return result;
}

/// Number of bytes that moved; 0 if the socket is not ready.
std::size_t moved(ssize_t result, const char* what) {
  if (result < 0 && (errno == EAGAIN || errno == EINTR)) return 0;
  if (result == 0) throw std::runtime_error("a rank has ended");
  return static_cast<std::size_t>(check(static_cast<int>(std::min<ssize_t>(result, 1 << 30)), what));
}

class ExchangeContestant : public Contestant {
 public:
  /// `right`, `left`: connected sockets to the neighbours. `in_host`: they are on this host.
  ExchangeContestant(int rank, int size, int right, int left, bool in_host)
      : Contestant(rank, size), right_(right), left_(left), in_host_(in_host) {
    for (const int fd : {right, left}) {
      const int on = 1;
      check(::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on), "TCP_NODELAY");
      // As kolo does: within a host, pacing (the default of some systems) only costs time.
      if (in_host) check(::setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, "reno", 4), "TCP_CONGESTION");
      check(::fcntl(fd, F_SETFL, O_NONBLOCK), "O_NONBLOCK");
    }
  }

  bool computes() const override { return false; }
  std::vector<std::string> algorithms(const Case& what) const override {
    if (what.kind != Kind::all_reduce || what.bytes() == 0) return {};
    return {"neighbours"};
  }
  std::byte* memory(std::size_t bytes) override { return memory_.at_least(bytes); }

  void prepare(const Case& what, const std::string&, std::span<const Piece> pieces) override {
    bytes_ = what.bytes();
    pieces_.assign(pieces.begin(), pieces.end());
  }

  void call(std::size_t begin, std::size_t end) override {
    const auto ranks = static_cast<std::size_t>(size());
    const std::size_t share = (bytes_ + ranks - 1) / ranks;  // bytes of one step of a ring
    for (; begin < end; ++begin) {
      auto* const in = static_cast<std::byte*>(pieces_[begin].in);
      auto* const out = static_cast<std::byte*>(pieces_[begin].out);
      // As in a ring, the sent bytes and the received bytes are in different places.
      const std::size_t room = bytes_ - share;
      for (std::size_t step = 0; step < 2 * (ranks - 1); ++step) {
        const std::size_t from = std::min(room, share * (step % ranks));
        const std::size_t to = std::min(room, share * ((step + 1) % ranks));
        exchange({in + from, share}, {out + to, share});
      }
    }
  }

  /// Two rounds: after the first, all ranks have come; after the second, all know it. The token is a whole
  /// cache line, because unaligned data after it would be copied two to three times slower.
  void barrier() override {
    std::byte token[64]{};
    for (int round = 0; round < 2; ++round) {
      if (rank() == 0) exchange(token, {});
      exchange({}, token);
      if (rank() != 0) exchange(token, {});
    }
  }
  void share(void* data, std::size_t bytes) override {
    const std::span<std::byte> all(static_cast<std::byte*>(data), bytes);
    if (rank() != 0) exchange({}, all);
    if (rank() != size() - 1) exchange(all, {});
  }
  void collect(const double* mine, std::size_t count, double* all) override {
    // The numbers from the left, and then this rank's.
    std::vector<double> passed(count * static_cast<std::size_t>(rank() == 0 ? size() : rank()));
    const std::span<std::byte> bytes(reinterpret_cast<std::byte*>(passed.data()),
                                     passed.size() * sizeof(double));
    const std::size_t own = count * sizeof(double);
    if (rank() == 0) {
      std::copy_n(mine, count, passed.data());
      exchange({}, bytes.subspan(own));
      std::copy(passed.begin(), passed.end(), all);
      return;
    }
    if (rank() > 1) exchange({}, bytes.first(own * static_cast<std::size_t>(rank() - 1)));
    std::copy_n(mine, count, passed.data() + count * static_cast<std::size_t>(rank() - 1));
    exchange(bytes.first(own * static_cast<std::size_t>(rank())), {});
  }

 private:
  /// Sets how many bytes wake this rank. Between hosts, it would wake for each packet otherwise.
  void wake_at(std::size_t bytes) {
    const int wanted = static_cast<int>(std::clamp<std::size_t>(bytes, 1, kWorthWaking));
    if (wanted == std::exchange(wakes_at_, wanted)) return;
    check(::setsockopt(left_, SOL_SOCKET, SO_RCVLOWAT, &wanted, sizeof wanted), "SO_RCVLOWAT");
  }

  /// Sends `out` to the right while `in` comes from the left, alternating in small amounts. A longer burst of
  /// writes would evict the received data from the caches.
  void exchange(std::span<const std::byte> out, std::span<std::byte> in) {
    while (!out.empty() || !in.empty()) {
      std::size_t step = 0;
      if (!out.empty()) {
        const std::size_t turn = in_host_ ? std::min(out.size(), kTurn) : out.size();
        const std::size_t sent = moved(::send(right_, out.data(), turn, MSG_NOSIGNAL), "send");
        out = out.subspan(sent);
        step += sent;
      }
      if (!in.empty()) {
        const std::size_t got = moved(::recv(left_, in.data(), in.size(), 0), "recv");
        in = in.subspan(got);
        step += got;
      }
      if (step > 0) continue;
      if (!in_host_) wake_at(in.size());
      pollfd wanted[2] = {{right_, static_cast<short>(out.empty() ? 0 : POLLOUT), 0},
                          {left_, static_cast<short>(in.empty() ? 0 : POLLIN), 0}};
      ::poll(wanted, 2, -1);
    }
  }

  int right_, left_;
  bool in_host_;
  int wakes_at_ = 1;  // bytes
  PlainMemory memory_;
  std::size_t bytes_ = 0;
  std::vector<Piece> pieces_;
};

/// Where a rank's sockets are. A socket stays in the namespace in which it was made.
struct Place {
  std::string space;  // a network namespace's name; empty for ours
  in_addr address;

  /// "NAME=ADDRESS" of a host of a cluster.
  static Place parse(std::string_view text) {
    const auto at = text.find('=');
    Place place{std::string(text.substr(0, at)), {}};
    const std::string address(at == text.npos ? "" : text.substr(at + 1));
    if (::inet_pton(AF_INET, address.c_str(), &place.address) != 1) {
      throw std::runtime_error(fmt::format("'{}' is no NAME=ADDRESS", text));
    }
    return place;
  }

  int make_socket() const {
    if (!space.empty()) {
      const int fd = check(::open(("/run/netns/" + space).c_str(), O_RDONLY | O_CLOEXEC), space.c_str());
      check(::setns(fd, CLONE_NEWNET), "setns");
      ::close(fd);
    }
    return check(::socket(AF_INET, SOCK_STREAM, 0), "socket");
  }
};

struct Listener {
  int fd;
  sockaddr_in address;
};

Listener listen_at(const Place& place) {
  Listener listener{place.make_socket(), {}};
  listener.address.sin_family = AF_INET;
  listener.address.sin_addr = place.address;
  auto* const generic = reinterpret_cast<sockaddr*>(&listener.address);
  socklen_t length = sizeof(sockaddr_in);
  check(::bind(listener.fd, generic, length), "bind");
  check(::listen(listener.fd, 1), "listen");
  check(::getsockname(listener.fd, generic, &length), "getsockname");
  return listener;
}

/// The ring's sockets are connected before the ranks are forked, so no rank waits for a connection.
/// `arguments`: the socket of kolo bench, the number of ranks, and for each a host if they are on several.
int run_ranks(std::span<char* const> arguments) {
  const int size = std::atoi(arguments[1]);
  const auto ranks = static_cast<std::size_t>(size);
  const auto hosts = arguments.subspan(2);
  if (!hosts.empty() && hosts.size() != ranks) throw std::runtime_error("every rank needs a host");
  std::vector<Place> places(ranks, Place{"", {htonl(INADDR_LOOPBACK)}});
  std::transform(hosts.begin(), hosts.end(), places.begin(), Place::parse);
  std::vector<Listener> listeners;
  std::transform(places.begin(), places.end(), std::back_inserter(listeners), listen_at);
  std::vector<int> right(ranks), left(ranks);
  for (std::size_t r = 0; r < ranks; ++r) {
    right[r] = places[r].make_socket();
    const auto* const to = reinterpret_cast<const sockaddr*>(&listeners[(r + 1) % ranks].address);
    check(::connect(right[r], to, sizeof(sockaddr_in)), "connect");
  }
  for (std::size_t r = 0; r < ranks; ++r)
    left[r] = check(::accept(listeners[r].fd, nullptr, nullptr), "accept");
  return fork_ranks(size, [&](int rank) {
    const auto r = static_cast<std::size_t>(rank);
    ExchangeContestant contestant(rank, size, right[r], left[r], hosts.empty());
    return serve(contestant, arguments[0], "plain sockets");
  });
}

}  // namespace
}  // namespace kolo::bench

int main(int argc, char** argv) {
  return kolo::bench::peer_main(argc, argv, 2, "exchange", kolo::bench::run_ranks);
}
