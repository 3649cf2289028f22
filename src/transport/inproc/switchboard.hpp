// Switchboard: where the inproc ranks of this process find their channels, and where faults find them.
#pragma once

#include <atomic>
#include <chrono>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "transport/inproc/channel.hpp"

namespace kolo::transport::inproc {

/// Key by which both sides of a channel are matched: job, key, ranks, and the addresses of the two
/// transports.
struct Meeting {
  std::string job, key;
  int low_rank, high_rank;
  std::string low_address, high_address;

  auto operator<=>(const Meeting&) const = default;
};

/// A channel that one side has offered to the other.
struct Offer {
  const std::shared_ptr<Channel> channel;
  const std::shared_ptr<Doorbell> doorbell;  ///< of the offering side, rung when `is_taken`
  std::atomic<bool> is_taken{false};
};

/// One for each process. Thread-safe.
class Switchboard {
 public:
  static Switchboard& instance();

  /// Takes what the other side has offered, or else offers a channel. Null: no descriptors.
  std::shared_ptr<Offer> meet(const Meeting& meeting, const std::shared_ptr<Doorbell>& doorbell);
  void withdraw(const Meeting& meeting, const std::shared_ptr<Offer>& offer);

  void set_delay(const std::string& job, int a, int b, std::chrono::nanoseconds delay);
  void set_stalled(const std::string& job, int rank, bool stalled);
  void lose(const std::string& job, int rank);
  void clear_faults(const std::string& job);

 private:
  struct Faults {
    std::map<std::pair<int, int>, std::chrono::nanoseconds> delays;
    std::set<int> stalled, lost;
  };

  std::shared_ptr<Channel> make_channel(const Meeting& meeting);
  std::vector<std::shared_ptr<Channel>> channels_of(const std::string& job);

  std::mutex mutex_;
  std::map<Meeting, std::shared_ptr<Offer>> offers_;
  std::map<std::string, std::vector<std::weak_ptr<Channel>>> channels_;
  std::map<std::string, Faults> faults_;
};

}  // namespace kolo::transport::inproc
