// The keys of the store, which rank sets each, and their values:
//
//   rounds      rank 0    how many rounds have begun, a counter
//   round       rank 0    the newest round; the other keys exist once for each round
//   came/R      rank R    how many processes have come as rank R: more than one is an error
//   who/R       rank R    the first of these processes
//   job         rank 0    how many ranks there are and the group's name; or "over": it is too late to come
//   rank/R      rank R    what it offers
//   offers/I    rank 0    what all offer, in pieces: a few requests of each rank and not one for every pair
//   verdict     rank 0    how many pieces there are and their hash; or "off: " and why it was called off
//   called off  any rank  why the group was called off, by the first rank that did
//   told/R      rank R    it knows that the group was called off
//
// The rounds are for stores in which groups meet again: a job that its launcher has started again, or a
// program that creates a second communicator. Rank 0 is in a new round each time that it comes. Another rank
// comes into the newest round, unless its number has come there before: then that round has been decided, and
// the next is meant, or two processes have one number. A rank that waits in a round for a rank 0 that has
// died goes on into a newer one as soon as that has begun.
//
// The store cannot show whether a process that has come still lives. So two processes that come with one
// number, and a rank that was started again alone, look alike: both end the round. A rank that comes while a
// rank 0 tells why it has given up, for some seconds, is told too, even if it belongs to the next start.
#include "comm/address_exchange.hpp"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <random>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/config.hpp"
#include "base/hash.hpp"
#include "base/log.hpp"
#include "base/reminder.hpp"
#include "base/text_reader.hpp"
#include "comm/wireup.hpp"
#include "rendezvous/table.hpp"

namespace kolo::comm {
namespace {

using std::chrono::milliseconds;

constexpr auto kRounds = "rounds";
constexpr auto kRound = "round";
constexpr auto kJob = "job";
constexpr auto kOver = "over";
constexpr std::string_view kOff = "off: ";
constexpr auto kVerdict = "verdict";
constexpr auto kCalledOff = "called off";
constexpr char kEndOfOffer = '\0';             // offers are printable
constexpr std::size_t kPieceBytes = 64 << 10;  // the server may hold one for each rank at once
constexpr milliseconds kMoment{500};           // for rank 0's verdict, after a rank's own deadline
constexpr milliseconds kAskAgain{500};         // whether a rank has called the group off
constexpr milliseconds kListen{200};           // a link shows a rank's end before its reason is in the store

constexpr std::size_t kNameDigits = 24;
std::string random_name() {
  std::random_device random;
  return fmt::format("{:08x}{:08x}{:08x}", random(), random(), random());
}

std::string piece_key(std::size_t number) {
  return fmt::format("offers/{}", number);
}

std::string rank_key(int rank) {
  return fmt::format("rank/{}", rank);
}

std::string came_key(int rank) {
  return fmt::format("came/{}", rank);
}

std::string who_key(int rank) {
  return fmt::format("who/{}", rank);
}

std::string told_key(int rank) {
  return fmt::format("told/{}", rank);
}

/// How the text begins with which a rank calls the group off.
std::string given_up(int rank) {
  return fmt::format("rank {} has given up: ", rank);
}

/// Nothing unless all of the text is a number.
template <typename Number>
std::optional<Number> number_of(std::string_view text) {
  Number number{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

std::string this_process() {
  char host[256] = "";
  if (::gethostname(host, sizeof host - 1) != 0) host[0] = '\0';
  return fmt::format("process {} on {}", ::getpid(), host[0] == '\0' ? "this host" : host);
}

std::vector<std::string> rank_keys(int size) {
  std::vector<std::string> keys;
  for (int r = 0; r < size; ++r) keys.push_back(rank_key(r));
  return keys;
}

}  // namespace

AddressExchange::AddressExchange(std::shared_ptr<Store> store, int rank, int size,
                                 std::chrono::nanoseconds timeout)
    : all_(std::move(store)),
      rank_(rank),
      size_(size),
      timeout_(timeout),
      deadline_(Deadline::after(timeout)) {}

std::string AddressExchange::not_come(const std::string& who) const {
  return fmt::format("{} did not come: timed out after {:.3g} s (meeting at {})", who, to_seconds(timeout_),
                     store_->describe());
}

/// "ranks 1, 3 of 4", from keys such as rank_keys(); of many only the first are named.
std::string AddressExchange::names(const std::vector<std::string>& keys) const {
  constexpr std::size_t kShown = 16;
  std::vector<std::string_view> ranks;
  for (const std::string& key : keys) ranks.push_back(std::string_view(key).substr(key.find('/') + 1));
  const std::size_t shown = std::min(ranks.size(), kShown);
  return fmt::format("{} {}{} of {}", ranks.size() == 1 ? "rank" : "ranks",
                     fmt::join(ranks.begin(), ranks.begin() + static_cast<std::ptrdiff_t>(shown), ", "),
                     shown < ranks.size() ? fmt::format(" and {} more", ranks.size() - shown) : "", size_);
}

std::string AddressExchange::two_processes(const std::string& first, const std::string& second) const {
  return fmt::format(
      "two processes have come to {} as rank {} of {}: first {}, then {}; each rank needs a number of its "
      "own, and groups that meet at the same time need stores of their own",
      all_->describe(), rank_, size_, first, second);
}

void AddressExchange::fail_as_garbage(std::string_view key, std::string_view value) const {
  fail_to_meet(fmt::format("the store {} returns {} for {}, which no rank has put there", all_->describe(),
                           rendezvous::quoted(value), rendezvous::quoted(key)));
}

void AddressExchange::look_at(std::int64_t round) {
  round_ = round;
  store_ = make_prefix_store(fmt::format("round {}", round), all_);
}

/// The number of the newest round; 0 if none has begun. get() of a counter may not work in every store.
std::int64_t AddressExchange::newest() {
  if (!all_->wait({kRound}, {}).empty()) return 0;
  const std::string text = all_->get(kRound, kMoment);
  const auto round = number_of<std::int64_t>(text);
  if (!round || *round < 1) fail_as_garbage(kRound, text);
  return *round;
}

void AddressExchange::begin() {
  const std::int64_t round = all_->add(kRounds, 1);
  if (round < 1) fail_as_garbage(kRounds, std::to_string(round));
  look_at(round);
  job_ = random_name();
  store_->set(who_key(0), this_process());
  store_->set(kJob, fmt::format("{} {}", size_, job_));
  all_->set(kRound, std::to_string(round));
}

void AddressExchange::enter() {
  look_at(std::max<std::int64_t>(newest(), 1));
  // Only the last rank logs that all ranks wait for rank 0.
  for (Reminder reminder;;) {
    const auto patience = std::min<std::chrono::nanoseconds>(kAskAgain, reminder.until_due());
    if (store_->wait({kJob}, std::min(left(), patience)).empty()) {
      if (claim()) return;
      look_at(std::max(newest(), round_ + 1));
      continue;
    }
    if (const std::int64_t round = newest(); round > round_) {
      look_at(round);
      continue;
    }
    if (is_off()) {
      if (!reason_.starts_with(given_up(rank_))) fail_to_meet(reason_);
      store_->remove(kCalledOff);  // this rank had given up before, and rank 0 has not come since
      reason_.clear();
    }
    const auto zero = fmt::format("rank 0 of {}", size_);
    if (deadline_.passed()) {
      has_refused_ = true;
      fail_to_meet(not_come(zero));
    }
    if (reminder.is_due() && rank_ == size_ - 1) {
      log().warn("waiting {:.0f} s for {} to come (meeting at {})", reminder.waited_seconds(), zero,
                 store_->describe());
    }
  }
}

/// For a rank that has given up before it has come into a round.
void AddressExchange::enter_to_refuse() {
  if (rank_ == 0) return begin();
  const std::int64_t begun = newest();
  look_at(std::max<std::int64_t>(begun, 1));
  if (begun > 0 && (is_decided() || store_->add(came_key(rank_), 1) > 1)) look_at(round_ + 1);
}

/// Takes this rank's number in the round. Returns false if the round is not for this rank any more.
bool AddressExchange::claim() {
  const std::string job = store_->get(kJob, left() + kMoment);
  if (job == kOver) return false;
  const auto space = std::min(job.find(' '), job.size());
  const auto size = number_of<int>(job.substr(0, space));
  if (!size || job.size() != space + 1 + kNameDigits) fail_as_garbage(kJob, job);
  const std::string me = this_process();
  const std::int64_t come = store_->add(came_key(rank_), 1);
  if (come < 1) fail_as_garbage(came_key(rank_), std::to_string(come));
  if (come > 1) {
    if (is_decided()) return false;
    is_second_ = true;
    const bool is_known = store_->wait({who_key(rank_)}, kMoment).empty();
    return dispute(two_processes(is_known ? store_->get(who_key(rank_), kMoment) : "an unknown one", me));
  }
  store_->set(who_key(rank_), me);
  if (*size != size_) {
    return dispute(fmt::format("rank 0 was told that there are {} ranks, rank {} that there are {}", *size,
                               rank_, size_));
  }
  job_ = job.substr(space + 1);
  return true;
}

bool AddressExchange::is_decided() {
  return store_->wait({kVerdict}, {}).empty() || store_->wait({kCalledOff}, {}).empty();
}

/// Calls the round off, and throws when its rank 0 has heard that. A rank 0 that has died does not hear it.
/// Then the job was perhaps started again: returns false when another round has begun.
bool AddressExchange::dispute(const std::string& why) {
  store_->set(kCalledOff, given_up(rank_) + why);
  while (!store_->wait({kVerdict}, std::min<std::chrono::nanoseconds>(left(), kAskAgain)).empty()) {
    if (newest() > round_) {
      is_second_ = false;
      return false;
    }
    if (deadline_.passed()) break;
  }
  has_refused_ = true;
  if (!is_second_) store_->set(told_key(rank_), "");
  fail_to_meet(why);
}

/// Rank 0's part, if another process has come as rank 0 and has begun a round of its own. The ranks are
/// there, or on their way.
void AddressExchange::fail_as_first_zero() {
  look_at(newest());
  is_second_ = true;
  const bool is_known = store_->wait({who_key(0)}, kMoment).empty();
  fail_to_meet(two_processes(this_process(), is_known ? store_->get(who_key(0), kMoment) : "an unknown one"));
}

/// Removes this rank's keys of a former round.
void AddressExchange::forget(std::int64_t round) {
  if (round < 1) return;
  const auto former = make_prefix_store(fmt::format("round {}", round), all_);
  for (const std::string& key : {came_key(rank_), who_key(rank_), rank_key(rank_), told_key(rank_)})
    former->remove(key);
  if (rank_ != 0) return;
  for (const char* key : {kJob, kVerdict, kCalledOff}) former->remove(key);
  for (std::size_t i = 0; i < pieces_; ++i) former->remove(piece_key(i));
}

/// Keys of all ranks but this one.
std::vector<std::string> AddressExchange::others(std::string (*key)(int rank)) const {
  std::vector<std::string> keys;
  for (int r = 0; r < size_; ++r) {
    if (r != rank_) keys.push_back(key(r));
  }
  return keys;
}

std::string AddressExchange::job() {
  rank_ == 0 ? begin() : enter();
  return job_;
}

std::vector<std::string> AddressExchange::offers(const std::string& mine) {
  store_->set(rank_key(rank_), mine);
  const auto heard = rank_ == 0 ? gather() : hear();
  if (!heard) return {};
  TextReader text(*heard);
  std::vector<std::string> all;
  for (std::string offer; std::getline(text, offer, kEndOfOffer);) all.push_back(std::move(offer));
  if (all.size() != static_cast<std::size_t>(size_) || all[static_cast<std::size_t>(rank_)] != mine) {
    fail_to_meet(fmt::format("the store {} does not hold what rank {} of {} has put there",
                             store_->describe(), rank_, size_));
  }
  forget(round_ - 2);  // a rank that is late may still look into the last round
  ask_at_ = Clock::now() + kAskAgain;
  return all;
}

/// Rank 0's part: collects and publishes what all ranks offer.
std::string AddressExchange::gather() {
  const auto keys = rank_keys(size_);
  for (Reminder reminder;;) {
    const auto patience = std::min<std::chrono::nanoseconds>(kAskAgain, reminder.until_due());
    const auto missing = store_->wait(keys, std::min(left(), patience));
    if (missing.empty()) break;
    if (is_off()) fail_to_meet(reason_);
    if (newest() != round_) fail_as_first_zero();
    if (deadline_.passed()) fail_to_meet(not_come(names(missing)));
    if (reminder.is_due()) {
      log().warn("waiting {:.0f} s for {} to come (meeting at {})", reminder.waited_seconds(), names(missing),
                 store_->describe());
    }
  }
  std::string all;
  for (const std::string& key : keys) all += store_->get(key, left() + kMoment) + kEndOfOffer;
  pieces_ = (all.size() + kPieceBytes - 1) / kPieceBytes;
  for (std::size_t i = 0; i < pieces_; ++i)
    store_->set(piece_key(i), all.substr(i * kPieceBytes, kPieceBytes));
  give_verdict(fmt::format("{} {}", pieces_, hash(kHashSeed, all)));
  return all;
}

/// The part of all ranks but 0: waits for the verdict, which rank 0 gives as soon as all ranks have come. If
/// all have come and no verdict follows for a heartbeat, rank 0 is lost. If the wait took much longer than
/// that, this process was stopped itself. If ranks are missing, rank 0 names them, and has a moment more than
/// this rank for it. Returns false when another round has begun.
bool AddressExchange::await_verdict() {
  const auto ask_again = kAskAgain * (1 + size_ / 64);  // the more ranks, the more load for the store
  const auto heartbeat = config().heartbeat;
  for (bool all_were_here = false;;) {
    const std::chrono::nanoseconds most = left() + kMoment;
    const auto patience = heartbeat.count() > 0 ? std::min(most, heartbeat) : most;
    const auto begin = Clock::now();
    for (const Deadline end = Deadline::after(patience); !end.passed();) {
      if (store_->wait({kVerdict}, std::min<std::chrono::nanoseconds>(end.left(), ask_again)).empty())
        return true;
      if (newest() > round_) return false;
    }
    const bool was_running = Clock::now() - begin < 2 * patience;
    const auto missing = store_->wait(rank_keys(size_), {});
    const bool is_lost = missing.empty() && all_were_here && was_running;
    if (!is_lost && patience < most) {
      all_were_here = missing.empty();
      continue;
    }
    if (!missing.empty()) fail_to_meet(not_come(names(missing)));
    fail_to_meet(
        fmt::format("all {} ranks have come to {}, but rank 0 has not said so for {:.3g} s: it is "
                    "stopped, or its machine or network is down",
                    size_, store_->describe(), to_seconds(patience)));
  }
}

std::optional<std::string> AddressExchange::hear() {
  if (!await_verdict()) return std::nullopt;
  const std::string verdict = store_->get(kVerdict, left() + kMoment);
  if (verdict.starts_with(kOff)) {
    reason_ = verdict.substr(kOff.size());
    fail_to_meet(reason_);
  }
  const auto space = std::min(verdict.find(' '), verdict.size());
  const auto pieces = number_of<std::size_t>(verdict.substr(0, space));
  if (!pieces || space == verdict.size()) fail_as_garbage(kVerdict, verdict);
  std::string all;
  for (std::size_t i = 0; i < *pieces; ++i) all += store_->get(piece_key(i), left() + kMoment);
  if (verdict.substr(space + 1) != std::to_string(hash(kHashSeed, all))) fail_as_garbage("offers", all);
  pieces_ = *pieces;
  return all;
}

/// The store may end with this process. The answer to the second request comes after the store has answered
/// the other ranks.
void AddressExchange::give_verdict(const std::string& verdict) {
  store_->set(kVerdict, verdict);
  has_decided_ = true;
  store_->wait({kVerdict}, {});
}

bool AddressExchange::is_off() {
  if (!reason_.empty()) return true;
  if (Clock::now() < ask_at_) return false;
  ask_at_ = Clock::now() + kAskAgain;
  return listen({});
}

/// Whether a rank has called the group off, or does so within `patience`.
bool AddressExchange::listen(std::chrono::nanoseconds patience) {
  if (store_is_lost_ || store_ == nullptr) return false;
  try {
    if (store_->wait({kCalledOff}, patience).empty()) reason_ = store_->get(kCalledOff, kMoment);
  } catch (const Error& error) {  // the store has ended with its rank, and that rank's links show it
    log().debug("rank {} cannot ask the store any more: {}", rank_, error.what());
    store_is_lost_ = true;
  }
  return !reason_.empty();
}

void AddressExchange::give_up(const std::exception& error) {
  if (has_refused_) return;
  // An error of this rank alone is stored at once: the other ranks ask the store for it.
  if (dynamic_cast<const InvalidArgumentError*>(&error) != nullptr ||
      dynamic_cast<const SystemError*>(&error) != nullptr)
    return call_off(error.what());
  const bool knew = !reason_.empty();
  if (!knew) listen(kListen);
  call_off(error.what());
  if (knew) fail_to_meet(reason_);
  if (!reason_.empty()) fail_to_meet(fmt::format("{}; {}", error.what(), reason_));
}

void AddressExchange::call_off(std::string_view why) {
  if (store_is_lost_) return;
  const bool is_first = reason_.empty();
  const std::string text = is_first ? given_up(rank_).append(why) : reason_;
  try {
    if (store_ == nullptr) enter_to_refuse();
    if (is_first) store_->set(kCalledOff, text);
    // When rank 0 gives its verdict, all ranks have come, and ask twice a second from then on.
    const auto farewell =
        has_decided_ ? 2 * kAskAgain : std::min<std::chrono::nanoseconds>(left(), kFarewell) + kMoment;
    if (rank_ == 0 && !has_decided_ && !is_second_) give_verdict(std::string(kOff) + text);
    if (rank_ != 0) return store_->set(told_key(rank_), "");
    // The store may end with this process, also if another rank 0 has come: either of the two may serve it.
    const auto unaware =
        store_->wait(others(told_key), std::min<std::chrono::nanoseconds>(farewell, kMoment));
    if (!unaware.empty() && farewell > kMoment) {
      log().warn("{}; rank 0 stays {:.2g} s for {} to learn it", text, to_seconds(farewell), names(unaware));
      store_->wait(unaware, farewell - kMoment);
    }
    if (!is_second_) store_->set(kJob, kOver);
  } catch (const std::exception& error) {
    log().debug("rank {} cannot tell the other ranks: {}", rank_, error.what());
  }
}

}  // namespace kolo::comm
