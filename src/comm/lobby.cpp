// The keys, and who sets them. N is the newcomer's number:
//
//   numbers   newcomers    how many have taken a number so far, a counter
//   came      newcomers    how many of them have set their cards, a counter
//   gone      the group    those up to this number are in no line any more, a counter
//   bell      newcomers    a newcomer has come
//   card/N    newcomer N   what it is; removed when it is called or refused
//   call/N    the group    "come ", and the Invitation; or "no ", and why
//   offer/N   newcomer N   what it offers to the new group
//   group/N   the group    its rank and what all offer; or nothing: go back into line
//
// A newcomer that is called leaves the line. So one that dies can spoil one round at most, and one that lives
// comes into line again, with a new number, if that round fails.
#include "comm/lobby.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "base/log.hpp"
#include "base/text_reader.hpp"
#include "comm/settings.hpp"
#include "kolo/version.hpp"
#include "net/hmac.hpp"
#include "rendezvous/wire.hpp"

namespace kolo::comm {
namespace {

constexpr auto kNumbers = "numbers";
constexpr auto kCame = "came";
constexpr auto kGone = "gone";
constexpr auto kBell = "bell";
constexpr std::string_view kCome = "come ";
constexpr std::string_view kNo = "no ";
constexpr char kOfferEnd = '\0';                      // offers are printable
constexpr std::chrono::milliseconds kOfferTime{500};  // of a guest
constexpr std::chrono::seconds kGroupTime{3};         // of a group that has called
constexpr std::chrono::seconds kReadTime{2};          // for keys that are there
constexpr std::chrono::milliseconds kLookAgain{50};

std::string key_at(const char* kind, std::int64_t number) {
  return fmt::format("{}/{}", kind, number);
}

/// What newcomers and the group have in common, and last the newcomer's own process.
std::string card_of(const Options& options) {
  const std::string& key = key_of(options);
  return fmt::format("version {}, protocol {}\nkey {}\nprogram {}\n{}", KOLO_VERSION,
                     rendezvous::wire::kVersion,
                     key.empty() ? "none" : net::hmac_digits(key, "kolo's newcomers").substr(0, 16),
                     options.program, options.process);
}

/// What in `theirs` is other than in `ours`; empty if nothing is.
std::string difference(const std::string& theirs, const std::string& ours) {
  TextReader their_lines(theirs);
  TextReader our_lines(ours);
  std::string their;
  std::string our;
  for (int line = 0; line < 3; ++line) {
    std::getline(their_lines, their);
    std::getline(our_lines, our);
    if (their == our) continue;
    return their.starts_with("key ") ? "the job's key is another" : fmt::format("{} is not {}", their, our);
  }
  return {};
}

}  // namespace

Lobby::Lobby(const std::shared_ptr<Store>& store, const Options& options)
    : store_(make_prefix_store("newcomers", store)), card_(card_of(options)) {}

std::vector<Guest> Lobby::waiting(const std::vector<std::string>& processes) {
  store_->remove(kBell);
  const std::int64_t came = store_->add(kCame, 0);
  const std::int64_t last = store_->add(kNumbers, 0);
  const std::int64_t gone = store_->add(kGone, 0);
  std::vector<std::string> keys;
  for (std::int64_t n = gone + 1; n <= last; ++n) keys.push_back(key_at("card", n));
  const auto missing = store_->wait(keys, {});
  std::vector<Guest> guests;
  for (std::int64_t n = gone + 1; n <= last; ++n) {
    const std::string key = key_at("card", n);
    if (std::ranges::find(missing, key) != missing.end()) continue;
    const std::string card = store_->get(key, kReadTime);
    const std::string process = card.substr(card.rfind('\n') + 1);
    if (const std::string why = difference(card, card_); !why.empty()) {
      refuse(n, why);
    } else if (!process.empty() && std::ranges::find(processes, process) != processes.end()) {
      refuse(n, fmt::format("process {} is in the group already", process));
    } else {
      const auto earlier = std::ranges::find_if(
          guests, [&](const Guest& guest) { return !process.empty() && guest.process == process; });
      if (earlier != guests.end()) {  // perhaps it has died, and was started again
        refuse(earlier->number, fmt::format("process {} has come once more", process));
        guests.erase(earlier);
      }
      guests.push_back({n, process});
    }
  }
  if (missing.size() == keys.size() && came == last && last > gone) store_->add(kGone, last - gone);
  return guests;
}

void Lobby::refuse(std::int64_t number, const std::string& why) {
  log().warn("newcomer {} is refused: {}", number, why);
  store_->set(key_at("call", number), std::string(kNo) + why);
  store_->remove(key_at("card", number));
}

void Lobby::invite(std::vector<Guest>& guests, Invitation invitation) {
  std::vector<std::string> keys;
  for (const Guest& guest : guests) {
    store_->remove(key_at("card", guest.number));
    store_->set(key_at("call", guest.number),
                fmt::format("{}{} {} {} {}", kCome, invitation.place++, invitation.total,
                            invitation.measures ? 1 : 0, invitation.job));
    keys.push_back(key_at("offer", guest.number));
  }
  const auto missing = store_->wait(keys, kOfferTime);
  std::vector<Guest> late;
  std::erase_if(guests, [&](Guest& guest) {
    const std::string key = key_at("offer", guest.number);
    const bool is_late = std::ranges::find(missing, key) != missing.end();
    if (is_late) {
      late.push_back(guest);
    } else {
      guest.offer = store_->get(key, kReadTime);
      store_->remove(key);
    }
    return is_late;
  });
  admit(late, 0, {});
}

void Lobby::admit(const std::vector<Guest>& guests, int rank, const std::vector<std::string>& offers) {
  std::string all;
  for (const std::string& offer : offers) all += kOfferEnd + offer;
  for (const Guest& guest : guests)
    store_->set(key_at("group", guest.number), offers.empty() ? "" : std::to_string(rank++) + all);
}

bool Lobby::await_bell(std::chrono::nanoseconds time) {
  return store_->wait({kBell}, time).empty();
}

LobbyWatch::LobbyWatch(const std::shared_ptr<Store>& store, const Options& options)
    : lobby_(store, options), thread_([this] { run(); }) {}

LobbyWatch::~LobbyWatch() {
  stop();
  thread_.join();
}

void LobbyWatch::run() {
  try {
    do {
      has_seen_any_ = !lobby_.waiting().empty();
      while (!has_seen_any_ && !is_stopping_ && !lobby_.await_bell(kLookAgain)) {
      }
    } while (!has_seen_any_ && !is_stopping_);
  } catch (const std::exception& error) {
    log().info("no newcomer can join any more: {}", error.what());
  }
}

Newcomer::Newcomer(const std::shared_ptr<Store>& store, const Options& options)
    : store_(make_prefix_store("newcomers", store)), card_(card_of(options)) {}

std::optional<Invitation> Newcomer::await_call(const Deadline& deadline) {
  number_ = store_->add(kNumbers, 1);
  store_->set(key_at("card", number_), card_);
  store_->add(kCame, 1);
  store_->set(kBell, "");
  const std::string key = key_at("call", number_);
  if (!store_->wait({key}, deadline.left()).empty()) {
    store_->remove(key_at("card", number_));
    return std::nullopt;
  }
  const std::string call = store_->get(key, kReadTime);
  store_->remove(key);
  if (!call.starts_with(kCome))
    throw MismatchError("the group refuses this newcomer: " + call.substr(kNo.size()), {});
  Invitation invitation;
  TextReader(call.substr(kCome.size())) >> invitation.place >> invitation.total >> invitation.measures >>
      invitation.job;
  return invitation;
}

std::optional<Admission> Newcomer::await_group(const std::string& offer) {
  store_->set(key_at("offer", number_), offer);
  const std::string key = key_at("group", number_);
  if (!store_->wait({key}, kGroupTime).empty()) return std::nullopt;
  const std::string group = store_->get(key, kReadTime);
  store_->remove(key);
  if (group.empty()) return std::nullopt;
  Admission admission;
  TextReader text(group);
  std::string part;
  std::getline(text, part, kOfferEnd);
  admission.rank = std::stoi(part);
  while (std::getline(text, part, kOfferEnd)) admission.offers.push_back(part);
  return admission;
}

}  // namespace kolo::comm
