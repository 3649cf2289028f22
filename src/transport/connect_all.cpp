#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <map>

#include "base/log.hpp"
#include "base/reminder.hpp"
#include "transport/transport.hpp"

namespace kolo::transport {
namespace {

using std::chrono::milliseconds;
using Endpoints = std::map<int, std::unique_ptr<Endpoint>>;
using Missing = std::map<int, std::string>;  // what is known of each missing rank

// How often to ask which peers are gone, which takes time for each peer: ranks with many start on few cores.
constexpr milliseconds kBetweenLooks{10};
constexpr milliseconds kLongerPerPeer{1};
constexpr milliseconds kMostBetweenLooks{100};
constexpr milliseconds kLongestRefusal{1000};  // of a peer that has listened: after it the peer has ended
// Without a new connection for so long, the lower rank dials too, to see if the higher one lives. Many ranks
// on few cores take longer, but not between two connections.
constexpr milliseconds kPatience{2000};
constexpr int kShareOfTime =
    20;  // both are shorter where there is little time, as between ranks that have just met

/// "rank 1 (it has not dialled 10.0.0.2:4000), rank 3"
std::string names_of(const Missing& missing) {
  std::string text;
  for (const auto& [peer, known] : missing) {
    text += (text.empty() ? "rank " : ", rank ") + std::to_string(peer);
    if (!known.empty()) text += " (" + known + ")";
  }
  return text;
}

/// Code::rendezvous that names the ranks of `missing` and blames the first.
Status ranks_missing(std::string_view transport, int rank, const Missing& missing) {
  ErrorContext context;
  context.peer = missing.begin()->first;
  return Status(
      Code::rendezvous,
      std::string(transport) + ": rank " + std::to_string(rank) + " waited in vain for " + names_of(missing),
      std::move(context));
}

/// Waits until each endpoint could carry bytes.
Status set_up_all(std::string_view transport, int rank, Endpoints& endpoints, const Deadline& deadline) {
  for (;;) {
    Missing broken, missing;
    std::vector<pollfd> waiting;
    for (const auto& [peer, endpoint] : endpoints) {
      const auto is_set_up = endpoint->set_up();
      if (!is_set_up.ok()) {
        broken[peer] = endpoint->describe() + ": " + is_set_up.status().message();
      } else if (!*is_set_up) {
        missing[peer] = endpoint->describe() + " is not set up yet";
        endpoint->arm(false);
        waiting.push_back({endpoint->fd(), POLLIN, 0});
      }
    }
    if (!broken.empty()) return ranks_missing(transport, rank, broken);
    if (missing.empty()) return {};
    if (deadline.passed()) return ranks_missing(transport, rank, missing);
    if (::poll(waiting.data(), waiting.size(), deadline.left_ms()) < 0 && errno != EINTR)
      return Status::from_errno("poll", errno);
    for (const auto& [peer, endpoint] : endpoints) endpoint->disarm();
  }
}

}  // namespace

Result<std::vector<std::unique_ptr<Endpoint>>> connect_all(Transport& transport, int rank,
                                                           std::span<const TransportPeer> peers,
                                                           const Deadline& deadline, const IsGone& is_gone) {
  const std::string_view name = transport.name();
  for (const TransportPeer& peer : peers) {
    if (peer.rank != rank && peer.rank >= 0) continue;
    return Status(Code::invalid_argument,
                  std::string(name) + ": rank " + std::to_string(peer.rank) + " is no other rank");
  }
  const std::unique_ptr<Dialer> dialer = transport.dialer(rank, peers);
  for (const TransportPeer& peer : peers) {
    if (peer.rank < rank) dialer->dial(peer.rank);
  }
  Reminder reminder;
  Endpoints connected;
  const auto missing = [&] {
    Missing known;
    for (const TransportPeer& peer : peers) {
      if (!connected.contains(peer.rank)) known[peer.rank] = dialer->known(peer.rank);
    }
    return known;
  };
  const std::chrono::nanoseconds share = deadline.left() / kShareOfTime;
  const auto patience = std::min<std::chrono::nanoseconds>(kPatience, share);
  const auto longest_refusal = std::min<std::chrono::nanoseconds>(kLongestRefusal, share);
  auto dial_all_at = Clock::now() + patience;
  const milliseconds between_looks = std::min(
      kBetweenLooks + kLongerPerPeer * static_cast<milliseconds::rep>(peers.size()), kMostBetweenLooks);
  Clock::time_point look_at{};  // when to look again for peers that have ended
  while (connected.size() < peers.size()) {
    if (deadline.passed()) return ranks_missing(name, rank, missing());
    if (const auto now = Clock::now(); now >= look_at) {
      look_at = now + between_looks;
      Missing gone;
      for (const TransportPeer& peer : peers) {
        if (connected.contains(peer.rank)) continue;
        if (is_gone && is_gone(peer.rank)) {
          gone[peer.rank] = "it is gone";
        } else if (dialer->unreachable_for(peer.rank) >= longest_refusal) {
          gone[peer.rank] = dialer->known(peer.rank);
        } else if (std::string why = dialer->why_lost(peer.rank); !why.empty()) {
          gone[peer.rank] = std::move(why);
        } else if (now >= dial_all_at) {
          dialer->dial(peer.rank);
        }
      }
      if (!gone.empty()) return ranks_missing(name, rank, gone);
    }
    if (reminder.is_due()) {
      log().warn("{}: rank {}: waiting {:.0f} s for {}", name, rank, reminder.waited_seconds(),
                 names_of(missing()));
    }
    const auto left =
        std::clamp<Clock::duration>(dialer->next_time() - Clock::now(), milliseconds(0), between_looks);
    const int ms =
        std::min(deadline.left_ms(), static_cast<int>(std::chrono::ceil<milliseconds>(left).count()));
    pollfd entry{dialer->fd(), POLLIN, 0};
    if (::poll(&entry, 1, ms) < 0 && errno != EINTR) return Status::from_errno("poll", errno);
    for (auto& [peer, endpoint] : dialer->progress()) {
      connected[peer] = std::move(endpoint);
      dial_all_at = Clock::now() + patience;
    }
  }
  if (Status status = set_up_all(name, rank, connected, deadline); !status.ok()) return status;
  std::vector<std::unique_ptr<Endpoint>> endpoints;
  for (const TransportPeer& peer : peers) endpoints.push_back(std::move(connected[peer.rank]));
  return endpoints;
}

}  // namespace kolo::transport
