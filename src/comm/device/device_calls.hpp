// DeviceCalls: a communicator's calls on the memory of devices.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>

#include "base/service_thread.hpp"
#include "comm/device/nccl_group.hpp"
#include "comm/device/pieces.hpp"
#include "comm/device/staging.hpp"
#include "comm/state.hpp"

namespace kolo {

/// Each call is two. One has no data: it begins at once, in its place among the communicator's calls, with
/// the signature of the call, so that ranks that disagree, come late or are lost are found as ever. The other
/// one has the data, and a thread carries it out: on NCCL's stream, once all ranks are known to be in the
/// call, or by calls on pieces in the host's memory, in a group of their own. Calls on NCCL's stream may
/// follow each other there before they are over.
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

  Result<std::shared_ptr<const device::Gpu>> gpu_of(int index);
  comm::Staging& staging_of(const Job& job);
  State& pieces();
  void run();
  void carry_out(std::unique_ptr<Job> job);
  Status guard(const std::function<void()>& part);
  void wait_for_presence(const Job& job);
  void choose_engine(const Job& job);
  void watch(const Job& job);
  void unwatch();
  void look();
  void require_stream(const Job& job);
  bool look_at_running();
  void put_on_stream(Job& job);
  void move_pieces(Job& job);
  void fail(const Job& failed, const Status& status);
  void end(std::unique_ptr<Job> job, Status status);
  void close();

  State& outer_;
  std::map<int, std::shared_ptr<const device::Gpu>> gpus_;  ///< under the State's mutex
  std::shared_ptr<const engine::PreparedCall> barrier_;

  // Of the thread alone.
  std::map<int, std::unique_ptr<comm::Staging>> stagings_;
  std::shared_ptr<State> pieces_;             ///< for calls on pieces, and what the ranks agree on
  bool has_engine_ = false;                   ///< the ranks have chosen one
  std::unique_ptr<comm::NcclGroup> nccl_;     ///< null: the host's memory, or NCCL has failed
  std::deque<std::unique_ptr<Job>> running_;  ///< on NCCL's stream
  std::shared_ptr<engine::Operation> watch_;  ///< of what waits for NCCL

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::unique_ptr<Job>> jobs_;  ///< that the thread has not begun
  std::size_t unfinished_ = 0;
  bool ends_ = false;
  ServiceThread thread_;
};

}  // namespace kolo
