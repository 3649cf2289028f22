#include "comm/membership.hpp"

#include <algorithm>
#include <cstring>
#include <optional>

#include <fmt/format.h>

namespace kolo::comm {
namespace {

/// For the end of a rank to be seen that another one has reported first.
constexpr std::chrono::seconds kSightTime{1};
/// For connections to the newcomers of a group that has not come about.
constexpr std::chrono::milliseconds kFarewellTime{500};
/// The epoch of such a group.
constexpr std::uint64_t kDissolved = ~std::uint64_t{0};

struct Header {
  std::uint64_t epoch;
  std::uint32_t context;
  std::uint32_t ranks;
};

std::vector<std::byte> encode(std::uint32_t context, const View& view) {
  const Header header{view.epoch, context, static_cast<std::uint32_t>(view.standings.size())};
  std::string text(reinterpret_cast<const char*>(&header), sizeof header);
  text += view.standings + view.process + '\0' + view.offer + '\0' + view.newcomers;
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
  View view{.epoch = header.epoch, .standings = text.substr(0, ranks)};
  const auto is_standing = [](char one) { return one >= kOut && one <= kMember; };
  if (!std::ranges::all_of(view.standings, is_standing)) return std::nullopt;
  const auto process_end = text.find('\0', ranks);
  const auto offer_end = process_end == text.npos ? text.npos : text.find('\0', process_end + 1);
  if (offer_end == text.npos) return std::nullopt;
  view.process = text.substr(ranks, process_end - ranks);
  view.offer = text.substr(process_end + 1, offer_end - process_end - 1);
  view.newcomers = text.substr(offer_end + 1);
  return view;
}

}  // namespace

void fail_as_left_out(const std::string& why) {
  throw PeerLostError(fmt::format("shrink: the other ranks go on without this one: {}", why), {});
}

bool has_quorum(const Standings& standings) {
  const auto members = std::ranges::count(standings, kMember);
  const auto counted = std::ssize(standings) - std::ranges::count(standings, kOut);
  const auto lowest = standings.find_first_not_of(kOut);
  return 2 * members > counted || (2 * members == counted && members > 0 && standings[lowest] == kMember);
}

MembershipAgreement::MembershipAgreement(engine::Engine& engine, std::uint32_t context,
                                         const std::vector<int>& links, int rank, std::string process,
                                         Standings standings, Standings suspected, Hooks hooks)
    : engine_(engine),
      context_(context),
      links_(links),
      rank_(static_cast<std::size_t>(rank)),
      hooks_(std::move(hooks)),
      suspected_(std::move(suspected)),
      views_(links.size()) {
  mine_.standings = std::move(standings);
  mine_.process = std::move(process);
}

void MembershipAgreement::agree(std::uint64_t epoch, const Deadline& deadline) {
  begin(epoch);
  merge(suspected_);  // after begin(): a suspect that lives is told too
  const Deadline last = Deadline::after(deadline.left() + kGrace);
  std::optional<Deadline> sight;
  bool is_quiet = false;  // a rank may be late here because this one has not read what it sent
  while (true) {
    hooks_.go_on();
    engine_.own_trouble().throw_if_error();  // else ranks that this one cannot reach seem gone
    drop_gone(is_quiet && deadline.passed());
    if (relinks() != relinks_) tell(mine_.standings);
    if (is_settled()) {
      if (hooks_.may_go_on(mine_.standings)) return;
      if (!sight) sight = Deadline::after(kSightTime);
      if (sight->passed() || mine_.standings.find(kMissing) == Standings::npos) return;
    }
    if (last.passed()) throw TimeoutError("shrink: the ranks that are left do not agree on who they are", {});
    is_quiet = !receive(awaited(), last);
  }
}

bool MembershipAgreement::receive(const std::vector<int>& awaited, const Deadline& deadline) {
  const auto is_meant = [&](const engine::RecoveryMessage& message) {
    return decode(context_, links_.size(), message.bytes).has_value();
  };
  const auto message = engine_.receive_recovery(is_meant, awaited, deadline);
  if (message) take(*message);
  return message.has_value();
}

void MembershipAgreement::announce(std::string newcomers) {
  mine_.newcomers = std::move(newcomers);
  tell(mine_.standings);
}

std::string MembershipAgreement::await_newcomers() {
  const auto lowest = static_cast<std::size_t>(members().front());
  const auto is_meant = [&](const engine::RecoveryMessage& message) {
    const auto view = decode(context_, links_.size(), message.bytes);
    return message.from == links_[lowest] && view && view->epoch == mine_.epoch && !view->newcomers.empty();
  };
  while (views_[lowest].newcomers.empty()) {
    hooks_.go_on();
    const auto message = engine_.receive_recovery(is_meant, {links_[lowest]}, Deadline::after(kGrace));
    if (message) {
      views_[lowest] = *decode(context_, links_.size(), message->bytes);
    } else if (is_over() || engine_.is_gone(links_[lowest])) {
      throw AbortedError("regroup: another round has begun", {});
    }
  }
  return views_[lowest].newcomers;
}

/// Of the connections to members.
int MembershipAgreement::relinks() const {
  int sum = 0;
  for (const int member : members()) sum += engine_.relinks_to(links_[static_cast<std::size_t>(member)]);
  return sum;
}

bool MembershipAgreement::is_over() const {
  if (relinks() != relinks_) return true;
  return engine_.has_recovery([&](const engine::RecoveryMessage& message) {
    const auto link = std::ranges::find(links_, message.from);
    const auto view = decode(context_, links_.size(), message.bytes);
    if (link == links_.end() || !view) return false;
    const auto sender = static_cast<std::size_t>(link - links_.begin());
    if (!is_member(sender)) return false;
    return view->epoch > mine_.epoch || view->standings[sender] != kMember ||
           (view->epoch == mine_.epoch && view->standings != mine_.standings);
  });
}

void MembershipAgreement::withdraw() {
  const Standings before = mine_.standings;
  mine_.standings[rank_] = kOut;
  tell(before);
}

void MembershipAgreement::dissolve(engine::Engine& engine, std::size_t first) {
  const auto size = static_cast<std::size_t>(engine.size());
  const auto bytes = encode(0, {.epoch = kDissolved, .standings = Standings(size, kOut)});
  std::vector<int> newcomers;
  for (std::size_t r = first; r < size; ++r) {
    if (static_cast<int>(r) != engine.rank()) newcomers.push_back(static_cast<int>(r));
  }
  for (const int newcomer : newcomers) engine.send_recovery(newcomer, bytes);
  // An engine that ends makes no more connections, and to a newcomer without this word all seem dead.
  const auto is_unconnected = [&](int newcomer) { return engine.is_unconnected(newcomer); };
  const auto nothing = [](const engine::RecoveryMessage&) { return false; };
  for (const Deadline deadline = Deadline::after(kFarewellTime);
       !deadline.passed() && std::ranges::any_of(newcomers, is_unconnected);)
    engine.receive_recovery(nothing, {}, Deadline::after(std::chrono::milliseconds(1)));
}

std::vector<int> MembershipAgreement::members() const {
  std::vector<int> ranks;
  for (std::size_t r = 0; r < links_.size(); ++r) {
    if (is_member(r)) ranks.push_back(static_cast<int>(r));
  }
  return ranks;
}

void MembershipAgreement::begin(std::uint64_t epoch) {
  mine_.epoch = epoch;
  mine_.offer = hooks_.make_offer(epoch);
  mine_.newcomers.clear();
  tell(mine_.standings);
}

/// `to`: the standings, of which members are told.
void MembershipAgreement::tell(const Standings& to) {
  relinks_ = relinks();
  const auto bytes = encode(context_, mine_);
  for (std::size_t r = 0; r < links_.size(); ++r) {
    if (to[r] == kMember && r != rank_) engine_.send_recovery(links_[r], bytes);
  }
}

bool MembershipAgreement::is_settled() const {
  const auto has_announced = [&](const View& view) {
    return view.epoch == mine_.epoch && !view.newcomers.empty();
  };
  if (mine_.offer.empty() && std::ranges::any_of(views_, has_announced)) return true;
  for (std::size_t r = 0; r < links_.size(); ++r) {
    if (r == rank_ || !is_member(r)) continue;
    if (!has_said(r) || views_[r].standings != mine_.standings) return false;
  }
  return true;
}

std::vector<int> MembershipAgreement::awaited() const {
  std::vector<int> links;
  for (std::size_t r = 0; r < links_.size(); ++r) {
    if (r != rank_ && is_member(r) && !has_said(r)) links.push_back(links_[r]);
  }
  return links;
}

/// Tells the members before, if any standing has fallen.
void MembershipAgreement::merge(const Standings& others) {
  const Standings before = mine_.standings;
  for (std::size_t r = 0; r < links_.size(); ++r)
    mine_.standings[r] = std::min(mine_.standings[r], others[r]);
  if (!is_member(rank_)) fail_as_left_out("they have taken it for dead");
  if (mine_.standings != before) tell(before);
}

void MembershipAgreement::drop_gone(bool also_late) {
  Standings seen(links_.size(), kMember);
  for (std::size_t r = 0; r < links_.size(); ++r) {
    if (r != rank_ && mine_.standings[r] != kOut && engine_.is_gone(links_[r]))
      seen[r] = engine_.has_seen_end(links_[r]) ? kOut : kMissing;
  }
  while (receive({}, Deadline::after({}))) {
    // A rank that leaves has said before who goes on without whom.
  }
  for (std::size_t r = 0; r < links_.size(); ++r) {
    if (also_late && r != rank_ && is_member(r) && !has_said(r)) seen[r] = std::min(seen[r], char{kMissing});
  }
  merge(seen);
}

void MembershipAgreement::take(const engine::RecoveryMessage& message) {
  const auto link = std::ranges::find(links_, message.from);
  auto view = decode(context_, links_.size(), message.bytes);
  if (link == links_.end() || !view) return;
  const auto sender = static_cast<std::size_t>(link - links_.begin());
  if (view->epoch == kDissolved) fail_as_left_out("the group has not come about, and another one has");
  if (view->standings[sender] != kMember) {  // it has withdrawn, from all rounds
    Standings seen(links_.size(), kMember);
    seen[sender] = kOut;
    return merge(seen);
  }
  if (view->epoch < mine_.epoch) return;
  if (view->epoch > mine_.epoch) begin(view->epoch);
  const Standings theirs = view->standings;
  views_[sender] = std::move(*view);
  if (is_member(sender)) merge(theirs);
}

}  // namespace kolo::comm
