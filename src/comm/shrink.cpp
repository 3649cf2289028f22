// Shrinking: how the surviving ranks agree on their set, and meet again.
//
// Each survivor tells each other rank which ranks it takes to be alive, and what it offers to a new group. A
// rank that learns that another one is gone, from its own link or from a peer's word, removes it from its set
// and sends the set again. Sets only shrink, so all ranks come to the same one. A rank is sure of its set
// when every rank in it has sent this very set. Then they join and meet in a barrier. If that fails because
// one more rank has died, all ranks that were in it begin the next round.
//
// A rank that cannot go on, because it cannot open connections or because its own part of a round has failed,
// withdraws: it sends a set without itself, for good, and then throws. So it is in no group.
//
// If a rank dies between two of the barrier's messages, some ranks return while the rest begin that round. So
// all communicators that follow from one by shrink() are agreed on over the first one's links: a rank that
// has returned comes back there when its new communicator fails.
#include <sys/eventfd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/log.hpp"
#include "base/unique_fd.hpp"
#include "comm/state.hpp"

namespace kolo {
namespace {

// After the timeout: to agree without the ranks that have not come. Also the shortest time that a later round
// gives the other ranks to begin it.
constexpr std::chrono::seconds kGrace{5};

[[noreturn]] void fail_as_left_out(const char* why) {
  throw PeerLostError(fmt::format("shrink: the other ranks go on without this one: {}", why), {});
}

/// Whether a round failed through this rank, its `place` among the members. Another round would fail too.
bool is_own_fault(const Error& problem, int place) {
  const int blamed = problem.context().peer;
  if (dynamic_cast<const AbortedError*>(&problem) != nullptr) return false;  // another round has begun
  return blamed == place || (blamed < 0 && dynamic_cast<const SystemError*>(&problem) != nullptr);
}

bool can_open(std::size_t descriptors) {
  std::vector<UniqueFd> probes;
  while (probes.size() < descriptors) {
    probes.emplace_back(::eventfd(0, EFD_CLOEXEC));
    if (!probes.back().valid()) return false;
  }
  return true;
}

/// Throws SystemError if this rank can open no connections that reach as far as those to the peers did, or
/// too few: one to each peer to agree, or for a new group in shared memory, and some for a new tree.
void require_reach(const comm::Offer& offer, const engine::Engine& engine, const std::vector<int>& links) {
  if (!can_open(links.size() + 2 * std::bit_width(links.size())))
    Status::from_errno("shrink: no descriptors are left for new connections; raise the limit (ulimit -n)",
                       EMFILE)
        .throw_if_error();
  for (const int peer : links) {
    const auto* used = transport::find_transport(engine.transport_to(peer));
    const bool has_reach = used == nullptr || std::ranges::any_of(offer.transports, [&](const auto& offered) {
                             return transport::find_transport(offered.first)->reach >= used->reach;
                           });
    if (has_reach) continue;
    throw SystemError(fmt::format("shrink: rank {} can no longer connect to the other ranks{}", engine.rank(),
                                  offer.why_not),
                      {});
  }
}

/// What one rank tells its peers.
struct View {
  std::uint64_t epoch = 0;  // shrink() call and round
  std::vector<bool> alive;  // of the communicator's ranks
  std::string offer;
};

struct Header {
  std::uint64_t epoch;
  std::uint32_t context;
  std::uint32_t ranks;
};

std::vector<std::byte> encode(std::uint32_t context, const View& view) {
  const Header header{view.epoch, context, static_cast<std::uint32_t>(view.alive.size())};
  std::string text(reinterpret_cast<const char*>(&header), sizeof header);
  for (const bool alive : view.alive) text += alive ? '1' : '0';
  text += view.offer;
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

/// nullopt if the bytes are of another communicator, or malformed.
std::optional<View> decode(std::uint32_t context, std::size_t ranks, std::span<const std::byte> bytes) {
  Header header;
  if (bytes.size() < sizeof header + ranks) return std::nullopt;
  std::memcpy(&header, bytes.data(), sizeof header);
  if (header.context != context || header.ranks != ranks) return std::nullopt;
  const std::string text(reinterpret_cast<const char*>(bytes.data()) + sizeof header,
                         bytes.size() - sizeof header);
  View view{header.epoch, {}, text.substr(ranks)};
  for (std::size_t r = 0; r < ranks; ++r) view.alive.push_back(text[r] == '1');
  return view;
}

/// One rank's part in a shrink().
class MembershipAgreement {
 public:
  MembershipAgreement(engine::Engine& engine, std::uint32_t context, const std::vector<int>& links, int rank,
                      std::vector<bool> members, std::vector<bool> suspects)
      : engine_(engine), context_(context), links_(links), rank_(static_cast<std::size_t>(rank)) {
    mine_.alive = std::move(members);
    suspects.flip();
    not_suspect_ = std::move(suspects);
    views_.resize(links.size());
  }

  /// Returns when all members agree, in an epoch from `epoch` on: see epoch() and members(). `make_offer`
  /// makes what this rank offers in an epoch. `go_on` throws once this rank is to give up.
  template <typename MakeOffer, typename GoOn>
  void agree(std::uint64_t epoch, const MakeOffer& make_offer, const GoOn& go_on, const Deadline& deadline) {
    begin(epoch, make_offer);
    intersect(not_suspect_);  // after begin(): a suspect that lives is told too
    const auto is_meant = [&](const engine::RecoveryMessage& message) {
      return decode(context_, links_.size(), message.bytes).has_value();
    };
    const Deadline last = Deadline::after(deadline.left() + kGrace);
    bool is_quiet = false;  // a rank may be late here because this one has not read what it sent
    while (true) {
      go_on();
      engine_.own_trouble().throw_if_error();  // else ranks that this one cannot reach seem gone
      drop_gone(is_quiet && deadline.passed());
      if (is_settled()) return;
      if (last.passed())
        throw TimeoutError("shrink: the ranks that are left do not agree on who they are", {});
      const auto message = engine_.receive_recovery(is_meant, awaited(), last);
      if (message) take(*message, make_offer);
      is_quiet = !message;
    }
  }

  /// Whether a member has taken back what it agreed to, or has begun another round.
  bool is_over() const {
    return engine_.has_recovery([&](const engine::RecoveryMessage& message) {
      const auto link = std::ranges::find(links_, message.from);
      const auto view = decode(context_, links_.size(), message.bytes);
      if (link == links_.end() || !view) return false;
      const auto sender = static_cast<std::size_t>(link - links_.begin());
      return mine_.alive[sender] && (view->epoch >= mine_.epoch || !view->alive[sender]);
    });
  }

  /// The other members go on without this rank.
  void withdraw() {
    const std::vector<bool> before = mine_.alive;
    mine_.alive[rank_] = false;
    tell(before);
  }

  std::uint64_t epoch() const { return mine_.epoch; }
  /// The communicator's ranks that are members, and what they offer.
  std::vector<int> members() const {
    std::vector<int> ranks;
    for (std::size_t r = 0; r < links_.size(); ++r) {
      if (mine_.alive[r]) ranks.push_back(static_cast<int>(r));
    }
    return ranks;
  }
  const std::string& offer_of(int rank) const {
    const auto r = static_cast<std::size_t>(rank);
    return r == rank_ ? mine_.offer : views_[r].offer;
  }

 private:
  template <typename MakeOffer>
  void begin(std::uint64_t epoch, const MakeOffer& make_offer) {
    mine_.epoch = epoch;
    mine_.offer = make_offer(epoch);
    tell(mine_.alive);
  }

  void tell(const std::vector<bool>& to) {
    const auto bytes = encode(context_, mine_);
    for (std::size_t r = 0; r < links_.size(); ++r) {
      if (to[r] && r != rank_) engine_.send_recovery(links_[r], bytes);
    }
  }

  bool has_said(std::size_t r) const { return views_[r].epoch == mine_.epoch && !views_[r].alive.empty(); }

  bool is_settled() const {
    for (std::size_t r = 0; r < links_.size(); ++r) {
      if (r == rank_ || !mine_.alive[r]) continue;
      if (!has_said(r) || views_[r].alive != mine_.alive) return false;
    }
    return true;
  }

  std::vector<int> awaited() const {
    std::vector<int> links;
    for (std::size_t r = 0; r < links_.size(); ++r) {
      if (r != rank_ && mine_.alive[r] && !has_said(r)) links.push_back(links_[r]);
    }
    return links;
  }

  /// Removes the ranks that are not in `others`, and tells the ranks of the old set if it has changed.
  void intersect(const std::vector<bool>& others) {
    const std::vector<bool> before = mine_.alive;
    for (std::size_t r = 0; r < links_.size(); ++r) mine_.alive[r] = mine_.alive[r] && others[r];
    if (!mine_.alive[rank_]) fail_as_left_out("they have taken it for dead");
    if (mine_.alive != before) tell(before);
  }

  void drop_gone(bool also_late) {
    std::vector<bool> here(links_.size(), true);
    for (std::size_t r = 0; r < links_.size(); ++r) {
      if (r == rank_ || !mine_.alive[r]) continue;
      here[r] = !engine_.is_gone(links_[r]) && !(also_late && !has_said(r));
    }
    intersect(here);
  }

  template <typename MakeOffer>
  void take(const engine::RecoveryMessage& message, const MakeOffer& make_offer) {
    const auto link = std::ranges::find(links_, message.from);
    auto view = decode(context_, links_.size(), message.bytes);
    if (link == links_.end() || !view) return;
    const auto sender = static_cast<std::size_t>(link - links_.begin());
    if (!view->alive[sender]) {  // it has withdrawn, from all rounds
      std::vector<bool> here(links_.size(), true);
      here[sender] = false;
      return intersect(here);
    }
    if (view->epoch < mine_.epoch) return;
    if (view->epoch > mine_.epoch) begin(view->epoch, make_offer);
    const std::vector<bool> theirs = view->alive;
    views_[sender] = std::move(*view);
    if (mine_.alive[sender]) intersect(theirs);
  }

  engine::Engine& engine_;
  const std::uint32_t context_;
  const std::vector<int>& links_;
  const std::size_t rank_;
  std::vector<bool> not_suspect_;
  View mine_;
  std::vector<View> views_;
};

}  // namespace

std::shared_ptr<Communicator::State> Communicator::State::shrink() {
  comm::refuse_inside_reduction("shrink");
  State& first = origin ? *origin : *this;
  // Suspects are the ranks for whose loss this communicator's links have failed. Whether their links still
  // stand does not matter, see above.
  std::vector<bool> in(static_cast<std::size_t>(first.size), false);
  std::vector<bool> suspects = in;
  for (std::size_t r = 0; r < links().size(); ++r) {
    const std::size_t there = origin ? static_cast<std::size_t>(origin_ranks[r]) : r;
    in[there] = true;
    suspects[there] = engine->is_blamed(links()[r]);
  }
  std::uint64_t epoch;
  {
    const std::lock_guard lock(first.mutex);
    if (first.has_withdrawn) fail_as_left_out("its last shrink() failed");
    epoch = ++first.shrinks << 32;
  }
  const auto reason = std::make_shared<std::optional<std::string>>();
  const auto is_aborted = [&] {
    const std::lock_guard lock(mutex);
    return reason->has_value();
  };
  const auto go_on = [&] {
    if (is_aborted()) {
      throw AbortedError(fmt::format("shrink: rank {} aborted: {}", rank, reason->value()),
                         {.peer = rank, .collective = "shrink"});
    }
  };
  {
    const std::lock_guard lock(mutex);
    abort_of_shrink = reason;
  }
  const Deadline deadline = Deadline::after(timeout);
  MembershipAgreement council(*first.engine, first.group->context, first.links(), first.rank, std::move(in),
                              std::move(suspects));
  comm::Terms next = terms;
  next.options.timeout = timeout;
  comm::Offer offer;
  const auto make_words = [&](std::uint64_t of_epoch) {
    next.job = fmt::format("{}/{}.{}", first.terms.job, first.group->context, of_epoch);
    offer = comm::make_offer(first.rank, next);
    require_reach(offer, *engine, links());
    return offer.text;
  };
  try {
    if (engine->is_gone(links()[static_cast<std::size_t>(rank)]))
      fail_as_left_out("they have taken it for dead");
    if (engine->has_cut_message()) fail_as_left_out("it has passed memory that cannot be used");
    for (Deadline last = deadline;;
         last = Deadline::after(std::max<std::chrono::nanoseconds>(deadline.left(), kGrace))) {
      council.agree(epoch, make_words, go_on, last);
      {
        const std::lock_guard lock(first.mutex);  // other ranks may have called shrink() more often
        first.shrinks = std::max(first.shrinks, council.epoch() >> 32);
      }
      const std::vector<int> members = council.members();
      std::vector<std::string> offers;
      for (const int member : members) offers.push_back(council.offer_of(member));
      const auto place = static_cast<int>(std::ranges::find(members, first.rank) - members.begin());
      const auto size = static_cast<int>(members.size());
      try {
        // One more rank may die meanwhile: the first communicator's links show it.
        const auto is_gone = [&](int member) {
          return is_aborted() ||
                 first.engine->is_gone(
                     first.links()[static_cast<std::size_t>(members[static_cast<std::size_t>(member)])]);
        };
        const comm::Wireup wireup =
            comm::join(place, std::move(offer), offers, next, Deadline::after(comm::kJoinTime), is_gone);
        auto made = make(wireup, place, size, next, [&] { return is_aborted() || council.is_over(); });
        made->store = store;
        made->origin = first.shared_from_this();
        made->origin_ranks = members;
        made->chooser =
            std::make_unique<selection::Chooser>(selection::part_of(first.chooser->topology(), members));
        made->share_memory();
        log().info("rank {}: went on as rank {} of {} (ranks {})", first.rank, place, size,
                   fmt::join(members, ", "));
        return made;
      } catch (const Error& problem) {
        if (deadline.passed() || is_own_fault(problem, place)) throw;
        log().info("rank {}: shrinks again: {}", first.rank, problem.what());
      }
      epoch = council.epoch() + 1;
    }
  } catch (...) {
    council.withdraw();  // at the deadline, too: no two groups
    const std::lock_guard lock(first.mutex);
    first.has_withdrawn = true;
    throw;
  }
}

}  // namespace kolo
