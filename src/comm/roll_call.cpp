// What is in the store, and who puts it there:
//
//   size        rank 0  how many ranks there are
//   job         rank 0  the group's name
//   rank/R      rank R  what it offers
//   offers/I    rank 0  what all offer, in pieces: a few requests of each rank and not one for every pair
//   verdict     rank 0  how many pieces there are, or why it has called it off
//   called off  others  why, of the first that did
#include "comm/roll_call.hpp"

#include <algorithm>
#include <charconv>
#include <random>
#include <sstream>
#include <thread>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/log.hpp"
#include "base/reminder.hpp"
#include "comm/wireup.hpp"

namespace kolo {
namespace {

using std::chrono::milliseconds;

constexpr auto kSize = "size";
constexpr auto kJob = "job";
constexpr auto kVerdict = "verdict";
constexpr auto kCalledOff = "called off";
constexpr char kEndOfOffer = '\0';             // offers are printable
constexpr std::size_t kPieceBytes = 64 << 10;  // for every rank at once the server holds one
constexpr milliseconds kMoment{500};           // for rank 0's word, when a rank's own time is over
constexpr milliseconds kAskAgain{500};         // whether somebody has called it off
constexpr milliseconds kListen{200};           // links tell of a rank's end before it has said why

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

std::vector<std::string> rank_keys(int size) {
  std::vector<std::string> keys;
  for (int r = 0; r < size; ++r) keys.push_back(rank_key(r));
  return keys;
}

}  // namespace

RollCall::RollCall(Store& store, int rank, int size, std::chrono::nanoseconds timeout)
    : store_(store), rank_(rank), size_(size), timeout_(timeout), deadline_(Deadline::after(timeout)) {}

std::string RollCall::not_come(const std::string& who) const {
  return fmt::format("{} did not come within {:.3g} s (meeting at {})", who, to_seconds(timeout_),
                     store_.describe());
}

/// "ranks 1, 3 of 4", of rank_keys().
std::string RollCall::names(const std::vector<std::string>& keys) const {
  std::vector<std::string_view> ranks;
  for (const std::string& key : keys) ranks.push_back(std::string_view(key).substr(key.find('/') + 1));
  return fmt::format("{} {} of {}", ranks.size() == 1 ? "rank" : "ranks", fmt::join(ranks, ", "), size_);
}

std::string RollCall::job() {
  if (rank_ == 0) {
    if (store_.wait({kJob}, {}).empty()) {
      fail_to_meet(
          fmt::format("ranks have met at {} before; every group needs a store of its own, and the "
                      "file of an earlier job must be removed",
                      store_.describe()));
    }
    store_.set(kSize, std::to_string(size_));
    store_.set(kJob, random_name());
  }
  // Only the last rank says that rank 0 keeps all waiting.
  for (Reminder reminder; !store_.wait({kJob}, std::min(left(), reminder.until_due())).empty();) {
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

std::vector<std::string> RollCall::offers(const std::string& mine) {
  store_.set(rank_key(rank_), mine);
  std::istringstream text(rank_ == 0 ? gather() : hear());
  std::vector<std::string> all;
  for (std::string offer; std::getline(text, offer, kEndOfOffer);) all.push_back(std::move(offer));
  if (all.size() != static_cast<std::size_t>(size_) || all[static_cast<std::size_t>(rank_)] != mine) {
    fail_to_meet(fmt::format("two processes have come to {} as rank {} of {}, or it was used before",
                             store_.describe(), rank_, size_));
  }
  ask_at_ = Clock::now() + kAskAgain;
  return all;
}

/// Rank 0's part.
std::string RollCall::gather() {
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

/// The others' part. They ask who is missing only where rank 0 has not said so a moment after their own time
/// is over.
std::string RollCall::hear() {
  std::string verdict;
  try {
    verdict = store_.get(kVerdict, left() + kMoment);
  } catch (const TimeoutError&) {
    const auto missing = store_.wait(rank_keys(size_), {});
    fail_to_meet(missing.empty() ? fmt::format("all {} ranks have come to {}, but rank 0 has not said so",
                                               size_, store_.describe())
                                 : not_come(names(missing)));
  }
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

/// The store may end with this process: the answer to a second request comes after the others have been told.
void RollCall::give_verdict(const std::string& verdict) {
  store_.set(kVerdict, verdict);
  has_decided_ = true;
  store_.wait({kVerdict}, {});
}

bool RollCall::is_off() {
  if (!reason_.empty()) return true;
  if (Clock::now() < ask_at_) return false;
  ask_at_ = Clock::now() + kAskAgain;
  return listen({});
}

/// Whether somebody has called it off, or does so meanwhile.
bool RollCall::listen(std::chrono::nanoseconds patience) {
  if (store_is_lost_) return false;
  try {
    if (store_.wait({kCalledOff}, patience).empty()) reason_ = store_.get(kCalledOff, kMoment);
  } catch (const Error& error) {  // it has ended with its rank, whose links tell as much
    log().debug("rank {} cannot ask the store any more: {}", rank_, error.what());
    store_is_lost_ = true;
  }
  return !reason_.empty();
}

void RollCall::attempt(const std::function<void()>& meet) {
  try {
    meet();
  } catch (const InvalidArgument& error) {
    call_off(error.what());
    throw;
  } catch (const std::exception& error) {
    const bool knew = !reason_.empty();
    if (!knew) listen(kListen);
    call_off(error.what());
    if (knew) fail_to_meet(reason_);
    if (!reason_.empty()) fail_to_meet(fmt::format("{}; {}", error.what(), reason_));
    throw;
  }
}

void RollCall::call_off(std::string_view why) {
  if (store_is_lost_) return;
  const bool is_first = reason_.empty();
  const std::string text = is_first ? fmt::format("rank {} has given up: {}", rank_, why) : reason_;
  try {
    if (is_first) store_.set(kCalledOff, text);
    if (rank_ != 0) return;
    if (!has_decided_) return give_verdict(text);
    // The store may end with this process: the others ask once more.
    std::this_thread::sleep_for(2 * kAskAgain);
  } catch (const Error& error) {
    log().debug("rank {} cannot tell the others: {}", rank_, error.what());
  }
}

}  // namespace kolo
