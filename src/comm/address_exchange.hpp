// AddressExchange: how the ranks of a new group learn of each other through a store, or why they do not meet.
#pragma once

#include <chrono>
#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/deadline.hpp"
#include "comm/system_errors.hpp"
#include "kolo/store.hpp"

namespace kolo::comm {

/// The longest time for which a rank that cannot go on stays until the other ranks know why. Rank 0 goes on
/// serving the store; any other rank waits for the store to be served.
inline constexpr std::chrono::seconds kFarewell{5};

/// One rank's part. Groups may meet in a store one after the other, each in a round of its own, which rank 0
/// begins. A RendezvousError names the rank, or the problem, that is in the way. Used by one thread.
class AddressExchange {
 public:
  AddressExchange(std::shared_ptr<Store> store, int rank, int size, std::chrono::nanoseconds timeout);

  /// Comes into a round. Returns the group's name, the same on all ranks and different between groups.
  std::string job();
  /// What every rank offers, in rank order. Names those that have not come in time. Empty: rank 0 has begun
  /// another round, so job() comes again.
  std::vector<std::string> offers(const std::string& mine);
  /// Whether another rank has called the group off; asks the store twice a second at most.
  bool is_off();
  /// Runs `meet`, all that it takes to meet. If that throws, this rank tells the other ranks why, as far as
  /// the store can be reached. If another rank has called the group off before, RendezvousError gives that
  /// rank's reason.
  template <typename Meet>
  void attempt(Meet meet) {
    try {
      with_system_errors(meet);
    } catch (const std::exception& error) {
      give_up(error);
      throw;
    }
  }

  int size() const { return size_; }
  std::chrono::nanoseconds left() const { return deadline_.left(); }

 private:
  void look_at(std::int64_t round);
  std::int64_t newest();
  void begin();
  void enter();
  void enter_to_refuse();
  bool claim();
  bool dispute(const std::string& why);
  bool is_decided();
  void forget(std::int64_t round);
  [[noreturn]] void fail_as_first_zero();
  [[noreturn]] void fail_as_garbage(std::string_view key, std::string_view value) const;
  std::string two_processes(const std::string& first, const std::string& second) const;
  void give_up(const std::exception& error);
  void call_off(std::string_view why);
  bool listen(std::chrono::nanoseconds patience);
  std::string gather();
  std::optional<std::string> hear();
  bool await_verdict();
  void give_verdict(const std::string& verdict);
  std::string not_come(const std::string& who) const;
  std::string names(const std::vector<std::string>& keys) const;
  std::vector<std::string> others(std::string (*key)(int rank)) const;

  const std::shared_ptr<Store> all_;  // of all rounds
  std::shared_ptr<Store> store_;      // the keys of this rank's round; null before it has come into one
  std::int64_t round_ = 0;
  std::string job_;
  std::size_t pieces_ = 0;  // of what all offer
  const int rank_;
  const int size_;
  const std::chrono::nanoseconds timeout_;
  const Deadline deadline_;
  std::string reason_;        // why another rank has called the group off
  bool is_second_ = false;    // another process has this rank's number
  bool has_refused_ = false;  // the other ranks of the round know why this one gives up, or there are none
  bool has_decided_ = false;  // rank 0 has given its verdict
  bool store_is_lost_ = false;
  Clock::time_point ask_at_{};
};

}  // namespace kolo::comm
