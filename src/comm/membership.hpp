// MembershipAgreement: how the surviving ranks of a group agree on their set, in shrink() and regroup().
//
// Each survivor tells each other rank how it takes every rank to stand, and what it offers to a new group. A
// rank that learns that another one is gone, from its own link or from a peer's word, lowers that rank's
// standing and sends all standings again. Standings only fall, so all ranks come to the same ones. A rank is
// sure of them when every member has sent these very standings.
//
// A rank that cannot go on withdraws: it sends standings without itself, for good. So it is in no group.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "base/deadline.hpp"
#include "engine/engine.hpp"
#include "kolo/error.hpp"

namespace kolo::comm {

/// After the timeout: to agree without the ranks that have not come. Also the shortest time that a later
/// round gives the other ranks to begin it.
inline constexpr std::chrono::seconds kGrace{5};

[[noreturn]] void fail_as_left_out(const std::string& why);

/// How a rank is taken to stand, the worst first.
enum Standing : char {
  kOut = '0',      ///< its end was seen, or it never was in the last group: no quorum counts it
  kMissing = '1',  ///< silent or late, so it may live
  kMember = '2'
};
/// Of each rank.
using Standings = std::string;

/// Whether the members may go on alone: they are more than half of the ranks that count, or exactly half and
/// the lowest of these ranks is one of them.
bool has_quorum(const Standings& standings);

/// What one rank tells its peers.
struct View {
  std::uint64_t epoch = 0;  // shrink() or regroup() call, and round
  Standings standings = {};
  std::string process = {};    // Options::process
  std::string offer = {};      // to a new group
  std::string newcomers = {};  // who joins: known to the lowest member first; empty until then
};

/// One rank's part in one call. Used by one thread.
class MembershipAgreement {
 public:
  struct Hooks {
    std::function<std::string(std::uint64_t epoch)> make_offer;
    std::function<void()> go_on;  ///< throws once this rank is to give up
    std::function<bool(const Standings&)> may_go_on;
  };

  /// `links`: of each rank of the communicator, whose number is `context`. `standings`: before the call.
  /// `suspected`: what this rank knows from elsewhere.
  MembershipAgreement(engine::Engine& engine, std::uint32_t context, const std::vector<int>& links, int rank,
                      std::string process, Standings standings, Standings suspected, Hooks hooks);

  /// Returns when all members agree, in an epoch from `epoch` on. If they may not go on, it gives the ends of
  /// missing ranks a moment to be seen.
  void agree(std::uint64_t epoch, const Deadline& deadline);
  /// The lowest member's part: tells the others. Or each's, if no member has an offer: some may have changed
  /// their standings since, and would wait for this rank.
  void announce(std::string newcomers);
  /// The other members' part. Throws AbortedError if another round begins instead.
  std::string await_newcomers();
  /// Whether a member has taken back what it agreed to, or has begun another round, or may not have heard
  /// this rank, because their connection was cut.
  bool is_over() const;
  /// The other members go on without this rank.
  void withdraw();
  /// For the ranks of a group that has not come about, over links of its own, from rank `first` on.
  static void dissolve(engine::Engine& engine, std::size_t first);

  std::uint64_t epoch() const { return mine_.epoch; }
  const Standings& standings() const { return mine_.standings; }
  /// The communicator's ranks that are members, in order.
  std::vector<int> members() const;
  const View& view_of(int rank) const {
    const auto r = static_cast<std::size_t>(rank);
    return r == rank_ ? mine_ : views_[r];
  }

 private:
  void begin(std::uint64_t epoch);
  void tell(const Standings& to);
  bool is_member(std::size_t r) const { return mine_.standings[r] == kMember; }
  bool has_said(std::size_t r) const {
    return views_[r].epoch == mine_.epoch && !views_[r].standings.empty();
  }
  bool is_settled() const;
  int relinks() const;
  std::vector<int> awaited() const;
  void merge(const Standings& others);
  void drop_gone(bool also_late);
  bool receive(const std::vector<int>& awaited, const Deadline& deadline);
  void take(const engine::RecoveryMessage& message);

  engine::Engine& engine_;
  const std::uint32_t context_;
  const std::vector<int>& links_;
  const std::size_t rank_;
  const Hooks hooks_;
  const Standings suspected_;
  int relinks_ = 0;  // when this rank last told its view
  View mine_;
  std::vector<View> views_;
};

}  // namespace kolo::comm
