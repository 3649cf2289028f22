// The keys of the store, which rank sets each, and their values:
//
//   came/R      rank R    how many processes have come as rank R: more than one is an error
//   who/R       rank R    the first of these processes
//   size        rank 0    how many ranks there are
//   job         rank 0    the group's name
//   rank/R      rank R    what it offers
//   offers/I    rank 0    what all offer, in pieces: a few requests of each rank and not one for every pair
//   verdict     rank 0    how many pieces there are, or why the group was called off
//   called off  any rank  why the group was called off, by the first rank that did
//   told/R      rank R    it knows that the group was called off
#include "comm/address_exchange.hpp"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <random>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/config.hpp"
#include "base/log.hpp"
#include "base/reminder.hpp"
#include "base/text_reader.hpp"
#include "comm/wireup.hpp"

namespace kolo::comm {
namespace {

using std::chrono::milliseconds;

constexpr auto kSize = "size";
constexpr auto kJob = "job";
constexpr auto kVerdict = "verdict";
constexpr auto kCalledOff = "called off";
constexpr char kEndOfOffer = '\0';             // offers are printable
constexpr std::size_t kPieceBytes = 64 << 10;  // the server may hold one for each rank at once
constexpr milliseconds kMoment{500};           // for rank 0's verdict, after a rank's own deadline
constexpr milliseconds kAskAgain{500};         // whether a rank has called the group off
constexpr milliseconds kListen{200};           // a link shows a rank's end before its reason is in the store

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

AddressExchange::AddressExchange(Store& store, int rank, int size, std::chrono::nanoseconds timeout)
    : store_(store), rank_(rank), size_(size), timeout_(timeout), deadline_(Deadline::after(timeout)) {}

std::string AddressExchange::not_come(const std::string& who) const {
  return fmt::format("{} did not come within {:.3g} s (meeting at {})", who, to_seconds(timeout_),
                     store_.describe());
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

/// Takes this rank's number, which belongs to the first process that comes with it.
void AddressExchange::claim() {
  const std::string me = this_process();
  if (store_.add(came_key(rank_), 1) == 1) return store_.set(who_key(rank_), me);
  is_second_ = true;
  const bool is_known = store_.wait({who_key(rank_)}, kMoment).empty();
  fail_to_meet(
      fmt::format("two processes have come to {} as rank {} of {}: first {}, then {}; each rank needs "
                  "a number of its own, and each group a store that was not used before",
                  store_.describe(), rank_, size_,
                  is_known ? store_.get(who_key(rank_), kMoment) : "an unknown one", me));
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
  claim();
  if (rank_ == 0) {
    store_.set(kSize, std::to_string(size_));
    store_.set(kJob, random_name());
  }
  // Only the last rank logs that all ranks wait for rank 0.
  for (Reminder reminder;;) {
    const auto patience = std::min<std::chrono::nanoseconds>(kAskAgain, reminder.until_due());
    if (store_.wait({kJob}, std::min(left(), patience)).empty()) break;
    if (is_off()) fail_to_meet(reason_);
    const auto zero = fmt::format("rank 0 of {}", size_);
    if (deadline_.passed()) fail_to_meet(not_come(zero));
    if (reminder.is_due() && rank_ == size_ - 1) {
      log().warn("waiting {:.0f} s for {} to come (meeting at {})", reminder.waited_seconds(), zero,
                 store_.describe());
    }
  }
  const std::string size = store_.get(kSize, left());
  if (size != std::to_string(size_)) {
    fail_to_meet(fmt::format("rank 0 was told that there are {} ranks, rank {} that there are {}", size,
                             rank_, size_));
  }
  return store_.get(kJob, left());
}

std::vector<std::string> AddressExchange::offers(const std::string& mine) {
  store_.set(rank_key(rank_), mine);
  TextReader text(rank_ == 0 ? gather() : hear());
  std::vector<std::string> all;
  for (std::string offer; std::getline(text, offer, kEndOfOffer);) all.push_back(std::move(offer));
  if (all.size() != static_cast<std::size_t>(size_) || all[static_cast<std::size_t>(rank_)] != mine) {
    fail_to_meet(
        fmt::format("the store {} does not hold what rank {} of {} has put there: it was used before",
                    store_.describe(), rank_, size_));
  }
  ask_at_ = Clock::now() + kAskAgain;
  return all;
}

/// Rank 0's part: collects and publishes what all ranks offer.
std::string AddressExchange::gather() {
  const auto keys = rank_keys(size_);
  for (Reminder reminder;;) {
    const auto patience = std::min<std::chrono::nanoseconds>(kAskAgain, reminder.until_due());
    const auto missing = store_.wait(keys, std::min(left(), patience));
    if (missing.empty()) break;
    if (is_off()) fail_to_meet(reason_);
    if (deadline_.passed()) fail_to_meet(not_come(names(missing)));
    if (reminder.is_due()) {
      log().warn("waiting {:.0f} s for {} to come (meeting at {})", reminder.waited_seconds(), names(missing),
                 store_.describe());
    }
  }
  std::string all;
  for (const std::string& key : keys) all += store_.get(key, left() + kMoment) + kEndOfOffer;
  const std::size_t pieces = (all.size() + kPieceBytes - 1) / kPieceBytes;
  for (std::size_t i = 0; i < pieces; ++i) store_.set(piece_key(i), all.substr(i * kPieceBytes, kPieceBytes));
  give_verdict(std::to_string(pieces));
  return all;
}

/// The part of all ranks but 0: waits for the verdict, which rank 0 gives as soon as all ranks have come. If
/// all have come and no verdict follows for a heartbeat, rank 0 is lost. If the wait took much longer than
/// that, this process was stopped itself. If ranks are missing, rank 0 names them, and has a moment more than
/// this rank for it.
void AddressExchange::await_verdict() {
  const auto heartbeat = config().heartbeat;
  for (bool all_were_here = false;;) {
    const std::chrono::nanoseconds most = left() + kMoment;
    const auto patience = heartbeat.count() > 0 ? std::min(most, heartbeat) : most;
    const auto begin = Clock::now();
    if (store_.wait({kVerdict}, patience).empty()) return;
    const bool was_running = Clock::now() - begin < 2 * patience;
    const auto missing = store_.wait(rank_keys(size_), {});
    const bool is_lost = missing.empty() && all_were_here && was_running;
    if (!is_lost && patience < most) {
      all_were_here = missing.empty();
      continue;
    }
    if (!missing.empty()) fail_to_meet(not_come(names(missing)));
    fail_to_meet(
        fmt::format("all {} ranks have come to {}, but rank 0 has not said so for {:.3g} s: it is "
                    "stopped, or its machine or network is down",
                    size_, store_.describe(), to_seconds(patience)));
  }
}

std::string AddressExchange::hear() {
  await_verdict();
  const std::string verdict = store_.get(kVerdict, left() + kMoment);
  std::size_t pieces = 0;
  const auto [end, error] = std::from_chars(verdict.data(), verdict.data() + verdict.size(), pieces);
  if (error != std::errc()) {
    reason_ = verdict;
    fail_to_meet(reason_);
  }
  std::string all;
  for (std::size_t i = 0; i < pieces; ++i) all += store_.get(piece_key(i), left() + kMoment);
  return all;
}

/// The store may end with this process. The answer to the second request comes after the store has answered
/// the other ranks.
void AddressExchange::give_verdict(const std::string& verdict) {
  store_.set(kVerdict, verdict);
  has_decided_ = true;
  store_.wait({kVerdict}, {});
}

bool AddressExchange::is_off() {
  if (!reason_.empty()) return true;
  if (Clock::now() < ask_at_) return false;
  ask_at_ = Clock::now() + kAskAgain;
  return listen({});
}

/// Whether a rank has called the group off, or does so within `patience`.
bool AddressExchange::listen(std::chrono::nanoseconds patience) {
  if (store_is_lost_) return false;
  try {
    if (store_.wait({kCalledOff}, patience).empty()) reason_ = store_.get(kCalledOff, kMoment);
  } catch (const Error& error) {  // the store has ended with its rank, and that rank's links show it
    log().debug("rank {} cannot ask the store any more: {}", rank_, error.what());
    store_is_lost_ = true;
  }
  return !reason_.empty();
}

void AddressExchange::give_up(const std::exception& error) {
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
  const std::string text = is_first ? fmt::format("rank {} has given up: {}", rank_, why) : reason_;
  try {
    if (is_first) store_.set(kCalledOff, text);
    // When rank 0 gives its verdict, all ranks have come, and ask twice a second from then on.
    const auto farewell =
        has_decided_ ? 2 * kAskAgain : std::min<std::chrono::nanoseconds>(left(), kFarewell) + kMoment;
    if (rank_ == 0 && !has_decided_) give_verdict(text);
    if (rank_ != 0) {
      if (!is_second_) store_.set(told_key(rank_), "");
      return;
    }
    // The store may end with this process, also with a second rank 0: either of the two may serve it.
    const auto unaware = store_.wait(others(told_key), std::min<std::chrono::nanoseconds>(farewell, kMoment));
    if (unaware.empty() || farewell <= kMoment) return;
    log().warn("{}; rank 0 stays {:.2g} s for {} to learn it", text, to_seconds(farewell), names(unaware));
    store_.wait(unaware, farewell - kMoment);
  } catch (const std::exception& error) {
    log().debug("rank {} cannot tell the other ranks: {}", rank_, error.what());
  } catch (...) {
    log().debug("rank {} cannot tell the other ranks", rank_);
  }
}

}  // namespace kolo::comm
