// DeviceCalls: a communicator's calls on the memory of devices, by way of the host's memory.
#pragma once

#include <condition_variable>
#include <deque>
#include <map>
#include <memory>
#include <mutex>

#include "base/service_thread.hpp"
#include "comm/device/pieces.hpp"
#include "comm/device/staging.hpp"
#include "comm/state.hpp"

namespace kolo {

/// Each call is two. One has no data: it begins at once, in its place among the communicator's calls, with
/// the signature of the call, so that ranks that disagree, come late or are lost are found as ever. The other
/// one is made of calls on pieces, in a group of their own, by a thread that also asks the device how far its
/// copies are.
struct Communicator::State::DeviceCalls {
 public:
  explicit DeviceCalls(State& outer);
  /// Calls in flight end with an error, on all ranks.
  ~DeviceCalls();
  DeviceCalls(const DeviceCalls&) = delete;
  DeviceCalls& operator=(const DeviceCalls&) = delete;

  /// State::start() of a call some of whose buffers are on a device. Wrong ones are an error on all ranks.
  Work start(comm::Call&& call, comm::CountSpan counts, comm::CountSpan recv_counts);

 private:
  class DeviceOperation;
  struct Job;

  std::shared_ptr<const device::Gpu> gpu_of(int index);
  comm::Staging& staging_of(const Job& job);
  State& pieces();
  void run();
  Status carry_out(Job& job);
  void move_pieces(Job& job);

  State& outer_;
  std::map<int, std::shared_ptr<const device::Gpu>> gpus_;  ///< under the State's mutex
  std::shared_ptr<const engine::PreparedCall> barrier_;
  std::map<int, std::unique_ptr<comm::Staging>> stagings_;  ///< of the thread alone
  std::shared_ptr<State> pieces_;                           ///< for calls on pieces; of the thread alone

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::unique_ptr<Job>> jobs_;  ///< the first one is under way
  bool ends_ = false;
  ServiceThread thread_;
};

}  // namespace kolo
