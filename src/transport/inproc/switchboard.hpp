// Switchboard: where the inproc ranks of this process find their channels, and where faults find them.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "base/deadline.hpp"
#include "base/status.hpp"
#include "transport/inproc/channel.hpp"

namespace kolo::inproc {

/// Key by which both sides of a channel are matched: job, key, ranks, and the addresses of the two
/// transports.
struct Meeting {
  std::string job, key;
  int low_rank, high_rank;
  std::string low_address, high_address;

  auto operator<=>(const Meeting&) const = default;
};

/// One for each process. Thread-safe.
class Switchboard {
 public:
  static Switchboard& instance();

  /// Waits until the other side of every meeting has come. Returns the channels in the same order. At the
  /// deadline, or when `is_gone` is true for a missing side, returns the indices of all meetings whose other
  /// side is missing.
  struct Met {
    std::vector<std::shared_ptr<Channel>> channels;
    std::vector<std::size_t> missing;
  };
  Result<Met> meet(const std::vector<Meeting>& meetings, const Deadline& deadline,
                   const std::function<bool(std::size_t)>& is_gone);

  void set_delay(const std::string& job, int a, int b, std::chrono::nanoseconds delay);
  void set_stalled(const std::string& job, int rank, bool stalled);
  void lose(const std::string& job, int rank);
  void clear_faults(const std::string& job);

 private:
  struct Faults {
    std::map<std::pair<int, int>, std::chrono::nanoseconds> delays;
    std::set<int> stalled, lost;
  };
  struct Offer {
    std::shared_ptr<Channel> channel;
    bool taken = false;
  };

  std::shared_ptr<Channel> make_channel(const Meeting& meeting);
  std::vector<std::shared_ptr<Channel>> channels_of(const std::string& job);

  std::mutex mutex_;
  std::condition_variable taken_;
  std::map<Meeting, std::shared_ptr<Offer>> offers_;
  std::map<std::string, std::vector<std::weak_ptr<Channel>>> channels_;
  std::map<std::string, Faults> faults_;
};

}  // namespace kolo::inproc
