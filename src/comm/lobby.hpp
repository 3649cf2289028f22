// Lobby: the store's keys through which newcomers join a group that is there already, see regroup().
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/deadline.hpp"
#include "base/service_thread.hpp"
#include "kolo/communicator.hpp"
#include "kolo/store.hpp"

namespace kolo::comm {

/// A newcomer that may come in.
struct Guest {
  std::int64_t number = 0;   ///< in the order of coming
  std::string process = {};  ///< Options::process
  std::string offer = {};    ///< to the new group
};

/// What a newcomer needs for its offer.
struct Invitation {
  int place = 0;         ///< a number that no other rank has, below `total`
  int total = 0;         ///< as HostMark's size
  bool measures = true;  ///< Options::measure_costs of the group
  std::string job = {};
};

/// A newcomer's place in the new group.
struct Admission {
  int rank = 0;
  std::vector<std::string> offers = {};  ///< of all ranks
};

/// The group's side. Used by its lowest rank. Every call may throw what the store throws.
class Lobby {
 public:
  /// `options`: those of the group. A newcomer of another version, program or key is refused.
  Lobby(const std::shared_ptr<Store>& store, const Options& options);

  /// Refuses newcomers that may not come in, and returns the rest. `processes`: of the members.
  std::vector<Guest> waiting(const std::vector<std::string>& processes = {});
  /// Asks for the offers of guests, and drops those that do not answer in time. The k-th gets the
  /// invitation's place plus k.
  void invite(std::vector<Guest>& guests, Invitation invitation);
  /// The k-th guest gets the rank `rank` plus k. Without offers: they wait on.
  void admit(const std::vector<Guest>& guests, int rank, const std::vector<std::string>& offers);
  /// Blocks until a newcomer may have come since the last waiting(), or the time has passed.
  bool await_bell(std::chrono::nanoseconds time);

 private:
  void refuse(std::int64_t number, const std::string& why);

  const std::shared_ptr<Store> store_;
  const std::string card_;
};

/// Looks after the lobby from a thread of its own, until a newcomer waits.
class LobbyWatch {
 public:
  LobbyWatch(const std::shared_ptr<Store>& store, const Options& options);
  ~LobbyWatch();
  bool has_seen_any() const noexcept { return has_seen_any_; }
  void stop() noexcept { is_stopping_ = true; }

 private:
  void run();

  Lobby lobby_;
  std::atomic<bool> has_seen_any_ = false;
  std::atomic<bool> is_stopping_ = false;
  ServiceThread thread_;
};

/// Communicator::create() of a process that its launcher may start again, see KOLO_JOIN.
Communicator join_or_meet(const std::shared_ptr<Store>& store, const Launch& launch, Options options);

/// One newcomer's side. Throws MismatchError if it is refused, and what the store throws.
class Newcomer {
 public:
  Newcomer(const std::shared_ptr<Store>& store, const Options& options);

  /// Waits in line until a group calls. nullopt at the deadline: it is in no line then.
  std::optional<Invitation> await_call(const Deadline& deadline);
  /// nullopt if the group has gone on without this newcomer, or does not answer.
  std::optional<Admission> await_group(const std::string& offer);

 private:
  const std::shared_ptr<Store> store_;
  const std::string card_;
  std::int64_t number_ = 0;
};

}  // namespace kolo::comm
