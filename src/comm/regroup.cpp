// Regrouping: how survivors meet again, and take newcomers in. shrink() is the same without newcomers and
// without a quorum.
//
// Survivors agree on who they are (comm/membership.hpp). Then the lowest of them calls the newcomers that
// wait in the store (comm/lobby.hpp) and tells the others who comes. All join and meet in a barrier. If that
// fails, because a rank has died, all survivors begin the next round; newcomers have one round per call.
//
// If a rank dies between two of the barrier's messages, some ranks return while the rest begin that round. So
// a group is its origin's, over whose links it was agreed on: a rank that has returned comes back there when
// its new communicator fails. All groups without newcomers have the first communicator as their origin. The
// newcomers of a group have no links to its origin. So the other ranks first find out, there, whether all of
// them have returned. If so, the group is its own origin from then on; if not, it has not come about.
#include <sys/eventfd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <optional>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/limits.hpp"
#include "base/log.hpp"
#include "base/unique_fd.hpp"
#include "comm/checked_store.hpp"
#include "comm/lobby.hpp"
#include "comm/membership.hpp"
#include "comm/state.hpp"
#include "net/hmac.hpp"
#include "transport/host_mark.hpp"

namespace kolo {
namespace {

using comm::MembershipAgreement;

/// For an answer of the store, whose host may be lost: all survivors wait for the one that asks it.
constexpr std::chrono::seconds kStoreTime{1};
constexpr char kSeparator = '\0';
constexpr char kNewStore = '1';  // in place of the first separator

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

/// The same on all ranks, different between groups, and as long as before.
std::string name_of_next(const comm::Terms& terms, std::uint32_t context, std::uint64_t epoch) {
  const std::string base = terms.job.substr(0, terms.job.find('/'));
  const std::string step = fmt::format("{}.{}", context, epoch);
  return fmt::format("{}/{}", base, net::hmac_digits(terms.job, step).substr(0, 16));
}

}  // namespace

/// One rank's part in a shrink() or regroup().
class Communicator::State::Regrouping {
 public:
  /// `at`: over whose links the ranks agree. `is_back`: this rank is in the group `last` already, and asks
  /// whether all are.
  Regrouping(State& last, State& at, const RegroupOptions* options, std::shared_ptr<Store> store,
             bool is_back, const comm::Standings& suspected);

  /// The new group; null if all ranks are in the last one.
  std::shared_ptr<State> run();
  const comm::Standings& standings() const { return council_.standings(); }

 private:
  comm::Standings known(bool before, const comm::Standings& suspected) const;
  std::string make_offer(std::uint64_t epoch);
  void go_on() const;
  bool is_aborted() const;
  void require_quorum() const;
  std::shared_ptr<State> meet();
  bool has_store_vanished() const;
  void look_into_lobby();
  std::vector<std::string> call_newcomers();
  int place() const {  ///< of this rank among the members
    return static_cast<int>(std::ranges::find(members_, at_.rank) - members_.begin());
  }

  State& last_;
  State& at_;
  const RegroupOptions* const options_;  // null: shrink()
  std::shared_ptr<Store> store_;
  bool is_back_;
  const std::shared_ptr<std::optional<std::string>> abort_reason_ =
      std::make_shared<std::optional<std::string>>();
  comm::Terms next_;
  comm::Offer offer_;
  std::optional<transport::HostMark> mark_;
  std::vector<int> members_;
  std::vector<comm::Guest> guests_;
  std::unique_ptr<comm::Lobby> lobby_;  // until newcomers have had their round
  bool takes_newcomers_;                // in this round, if this rank is the lowest one
  char first_ = kSeparator;             // of what this rank announces
  MembershipAgreement council_;
};

Communicator::State::Regrouping::Regrouping(State& last, State& at, const RegroupOptions* options,
                                            std::shared_ptr<Store> store, bool is_back,
                                            const comm::Standings& suspected)
    : last_(last),
      at_(at),
      options_(options),
      store_(std::move(store)),
      is_back_(is_back),
      next_(last.terms),
      takes_newcomers_(options != nullptr),
      council_(*at.engine, at.group->context, at.links(), at.rank, next_.options.process, known(true, {}),
               known(false, suspected),
               {[this](std::uint64_t epoch) { return make_offer(epoch); }, [this] { go_on(); },
                [this](const comm::Standings& standings) {
                  return options_ == nullptr || is_back_ || comm::has_quorum(standings);
                }}) {
  next_.options.timeout = last.timeout;
  const std::lock_guard lock(last.mutex);
  last.abort_of_shrink = abort_reason_;
}

/// How the ranks stood before this call, or what this rank knows since. Suspects are the ranks for whose loss
/// the last group's links have failed. Whether their links still stand does not matter, see above.
/// `suspected`: more of that, of the last group's first ranks.
comm::Standings Communicator::State::Regrouping::known(bool before, const comm::Standings& suspected) const {
  comm::Standings standings(at_.links().size(), comm::kOut);
  for (std::size_t r = 0; r < last_.links().size(); ++r) {
    const bool is_origins = &at_ != &last_;
    if (is_origins && r >= last_.origin_ranks.size()) break;  // newcomers
    char& standing = standings[is_origins ? static_cast<std::size_t>(last_.origin_ranks[r]) : r];
    const int link = last_.links()[r];
    standing = comm::kMember;
    if (before) continue;
    if (last_.engine->is_blamed(link))
      standing = last_.engine->has_seen_end(link) ? comm::kOut : comm::kMissing;
    if (options_ != nullptr &&
        std::ranges::find(options_->ended, static_cast<int>(r)) != options_->ended.end())
      standing = comm::kOut;
    if (r < suspected.size()) standing = std::min(standing, suspected[r]);
  }
  return standings;
}

bool Communicator::State::Regrouping::is_aborted() const {
  const std::lock_guard lock(last_.mutex);
  return abort_reason_->has_value();
}

void Communicator::State::Regrouping::go_on() const {
  if (is_aborted()) {
    throw AbortedError(fmt::format("shrink: rank {} aborted: {}", last_.rank, abort_reason_->value()),
                       {.peer = last_.rank, .collective = "shrink"});
  }
}

std::string Communicator::State::Regrouping::make_offer(std::uint64_t epoch) {
  if (is_back_) return {};
  const std::uint32_t context = at_.group->context;
  if (options_ == nullptr) {
    next_.job = fmt::format("{}/{}.{}", at_.terms.job, context, epoch);
  } else {
    next_.job = name_of_next(at_.terms, context, epoch);
    mark_.emplace(next_.job, at_.rank, at_.size);
    next_.host = mark_->name();
  }
  offer_ = comm::make_offer(at_.rank, next_);
  require_reach(offer_, *last_.engine, last_.links());
  return offer_.text;
}

void Communicator::State::Regrouping::require_quorum() const {
  const comm::Standings& standings = council_.standings();
  if (options_ == nullptr || comm::has_quorum(standings)) return;
  throw QuorumError(
      fmt::format("regroup: {} of {} ranks are left, and {} may live and go on without these: only more than "
                  "half, or half with the lowest rank, may go on",
                  members_.size(), last_.size, std::ranges::count(standings, char{comm::kMissing})),
      {});
}

std::shared_ptr<Communicator::State> Communicator::State::Regrouping::run() {
  std::uint64_t epoch;
  {
    const std::lock_guard lock(at_.mutex);
    if (at_.has_withdrawn) comm::fail_as_left_out("its last shrink() failed");
    epoch = ++at_.shrinks << 32;
  }
  const Deadline deadline = Deadline::after(last_.timeout);
  try {
    if (last_.engine->is_gone(last_.links()[static_cast<std::size_t>(last_.rank)]))
      comm::fail_as_left_out("they have taken it for dead");
    if (last_.engine->has_cut_message()) comm::fail_as_left_out("it has passed memory that cannot be used");
    for (Deadline last = deadline;;
         last = Deadline::after(std::max<std::chrono::nanoseconds>(deadline.left(), comm::kGrace))) {
      council_.agree(epoch, last);
      {
        const std::lock_guard lock(at_.mutex);  // other ranks may have called shrink() more often
        at_.shrinks = std::max(at_.shrinks, council_.epoch() >> 32);
      }
      epoch = council_.epoch() + 1;
      members_ = council_.members();
      const auto has_offer = [&](int member) { return !council_.view_of(member).offer.empty(); };
      if (std::ranges::none_of(members_, has_offer)) {
        council_.announce("all are back");
        return nullptr;
      }
      if (!std::ranges::all_of(members_, has_offer)) {
        log().info("rank {}: the last group is not whole", at_.rank);
        if (is_back_) MembershipAgreement::dissolve(*last_.engine, last_.origin_ranks.size());
        is_back_ = false;  // it makes offers from here on
        continue;
      }
      require_quorum();
      if (last_.calls < last_.fresh_until && members_.front() == at_.rank)
        comm::fail_as_left_out("it came, and no rank that was there before is left");
      try {
        return meet();
      } catch (const QuorumError&) {
        throw;
      } catch (const Error& problem) {
        if (deadline.passed() || is_own_fault(problem, place())) throw;
        log().info("rank {}: shrinks again: {}", at_.rank, problem.what());
      }
      takes_newcomers_ = false;
    }
  } catch (...) {
    council_.withdraw();  // at the deadline, too: no two groups
    const std::lock_guard lock(at_.mutex);
    at_.has_withdrawn = true;
    throw;
  }
}

/// Whether the store's host has, as far as this rank can tell from its name: all its ranks are silent.
bool Communicator::State::Regrouping::has_store_vanished() const {
  bool has_silent = false;
  for (std::size_t r = 0; r < at_.links().size(); ++r) {
    const std::string host = at_.engine->host_of(at_.links()[r]);
    if (host.empty() || host != store_->host()) continue;
    if (council_.standings()[r] == comm::kMember) return false;
    has_silent = has_silent || council_.standings()[r] == comm::kMissing;
  }
  return has_silent;
}

/// Finds who waits. If the store has failed, the next one is served.
void Communicator::State::Regrouping::look_into_lobby() {
  std::vector<std::string> processes;
  for (const int member : members_) processes.push_back(council_.view_of(member).process);
  const auto look = [&] {
    if (store_ == nullptr) comm::fail_to_meet("there is no store");
    if (has_store_vanished()) comm::fail_to_meet("the host of the store is lost");
    lobby_ = std::make_unique<comm::Lobby>(comm::make_impatient_store(store_, kStoreTime), next_.options);
    guests_ = lobby_->waiting(processes);
  };
  try {
    look();
  } catch (const Error& problem) {
    if (options_->serve == nullptr) throw;
    log().info("rank {}: serves a new store: {}", at_.rank, problem.what());
    store_ = options_->serve();
    first_ = kNewStore;
    look();
  }
}

/// Returns what newcomers offer. All members get the same: the lowest one alone decides, since some may have
/// had newcomers in this call, and others, which have returned before, not yet.
std::vector<std::string> Communicator::State::Regrouping::call_newcomers() {
  if (options_ == nullptr) return {};
  std::string text;
  if (members_.front() == at_.rank) {
    guests_.clear();
    try {
      const auto most = options_->most == 0 ? kMostRanks : options_->most;
      const auto room = static_cast<std::size_t>(std::max<std::ptrdiff_t>(0, most - std::ssize(members_)));
      look_into_lobby();  // in each round: a store that has ended with a rank is served anew
      if (!takes_newcomers_) guests_.clear();
      if (guests_.size() > room) guests_.resize(room);
      const int total = at_.size + static_cast<int>(guests_.size());
      if (!guests_.empty())
        lobby_->invite(guests_, {at_.size, total, next_.options.measure_costs, next_.job});
    } catch (const Error& problem) {
      log().info("rank {}: no newcomers can join: {}", at_.rank, problem.what());
      guests_.clear();
    }
    text += first_;
    for (const comm::Guest& guest : guests_) text += guest.offer + kSeparator;
    council_.announce(text);
  } else {
    text = council_.await_newcomers();
    if (text.front() == kNewStore)
      store_ = nullptr;  // else this rank would look for newcomers in a former one
  }
  std::vector<std::string> offers;
  for (std::size_t begin = 1, end; (end = text.find(kSeparator, begin)) != text.npos; begin = end + 1)
    offers.push_back(text.substr(begin, end - begin));
  return offers;
}

std::shared_ptr<Communicator::State> Communicator::State::Regrouping::meet() {
  const auto newcomers = call_newcomers();
  std::vector<std::string> offers;
  for (const int member : members_) offers.push_back(council_.view_of(member).offer);
  const std::size_t old_size = offers.size();
  offers.insert(offers.end(), newcomers.begin(), newcomers.end());
  const auto size = static_cast<int>(offers.size());
  const bool is_enough = options_ == nullptr || size >= options_->least;
  if (!guests_.empty()) {
    try {
      lobby_->admit(guests_, static_cast<int>(old_size), is_enough ? offers : std::vector<std::string>());
    } catch (const Error& problem) {  // those who do not come end the round
      log().warn("rank {}: {}", at_.rank, problem.what());
    }
    guests_.clear();
  }
  if (!is_enough) {
    throw QuorumError(
        fmt::format("regroup: {} ranks are left, and at least {} must be there", size, options_->least), {});
  }
  // One more rank may die meanwhile: the origin's links show it.
  const auto is_gone = [&](int member) {
    if (is_aborted() || council_.is_over()) return true;
    const auto r = static_cast<std::size_t>(member);
    return r < old_size && at_.engine->is_gone(at_.links()[static_cast<std::size_t>(members_[r])]);
  };
  comm::Wireup wireup;
  try {
    wireup = comm::join(place(), std::move(offer_), offers, next_, Deadline::after(comm::kJoinTime), is_gone);
    auto made = make(wireup, place(), size, next_, [&] { return is_aborted() || council_.is_over(); });
    made->store = store_;
    made->origin = at_.shared_from_this();
    made->origin_ranks = members_;
    if (newcomers.empty()) {
      made->chooser =
          std::make_unique<selection::Chooser>(selection::part_of(at_.chooser->topology(), members_));
    } else {
      Communicator whole(made);
      made->explore(whole, wireup, next_.options.measure_costs);
    }
    made->share_memory();
    log().info("rank {}: went on as rank {} of {} (ranks {}, {} newcomers)", at_.rank, place(), size,
               fmt::join(members_, ", "), newcomers.size());
    return made;
  } catch (...) {
    // Newcomers may have returned from the barrier.
    if (wireup.engine != nullptr) MembershipAgreement::dissolve(*wireup.engine, old_size);
    throw;
  }
}

std::shared_ptr<Communicator::State> Communicator::State::regroup(std::shared_ptr<Store> at,
                                                                  const RegroupOptions* options) {
  if (const std::lock_guard lock(mutex); watch != nullptr) watch->stop();
  if (at == nullptr) at = store;
  if (origin && origin_ranks.size() == links().size())
    return Regrouping(*this, *origin, options, at, false, {}).run();
  comm::Standings suspected;
  const std::shared_ptr<State> former_origin = origin;  // which the other ranks may need as long as this call
  if (origin) {
    Regrouping former(*this, *origin, options, at, true, {});
    if (auto made = former.run()) return made;
    for (const int rank : origin_ranks) suspected += former.standings()[static_cast<std::size_t>(rank)];
    origin.reset();
    origin_ranks.clear();
  }
  return Regrouping(*this, *this, options, at, false, suspected).run();
}

}  // namespace kolo
