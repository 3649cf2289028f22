// AddressExchange: how the ranks of a new group learn of each other through a store, or why they do not meet.
#pragma once

#include <chrono>
#include <exception>
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

/// One rank's part. `store` must be of this group alone, and must outlive it. A RendezvousError names the
/// rank, or the problem, that is in the way. Used by one thread.
class AddressExchange {
 public:
  AddressExchange(Store& store, int rank, int size, std::chrono::nanoseconds timeout);

  /// The group's name, the same on all ranks and different between groups.
  std::string job();
  /// What every rank offers, in rank order. Names those that have not come in time.
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
    } catch (...) {  // of a store of the caller's own
      call_off("its store threw no std::exception");
      throw;
    }
  }

  int size() const { return size_; }
  std::chrono::nanoseconds left() const { return deadline_.left(); }

 private:
  void claim();
  void give_up(const std::exception& error);
  void call_off(std::string_view why);
  bool listen(std::chrono::nanoseconds patience);
  std::string gather();
  std::string hear();
  void await_verdict();
  void give_verdict(const std::string& verdict);
  std::string not_come(const std::string& who) const;
  std::string names(const std::vector<std::string>& keys) const;
  std::vector<std::string> others(std::string (*key)(int rank)) const;

  Store& store_;
  const int rank_;
  const int size_;
  const std::chrono::nanoseconds timeout_;
  const Deadline deadline_;
  std::string reason_;        // why another rank has called the group off
  bool is_second_ = false;    // another process has this rank's number
  bool has_decided_ = false;  // rank 0 has given its verdict
  bool store_is_lost_ = false;
  Clock::time_point ask_at_{};
};

}  // namespace kolo::comm
