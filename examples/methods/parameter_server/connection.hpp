// A server's side of its communicator with one worker: takes one request after the other, without waiting.
#pragma once

#include "kolo/train/libtorch.hpp"

#include <deque>
#include <vector>

#include "kolo/communicator.hpp"
#include "methods/parameter_server/request.hpp"
#include "methods/parameter_server/shard.hpp"

namespace kolo::methods {

class WorkerConnection {
 public:
  WorkerConnection(const WorkerConnection&) = delete;
  WorkerConnection& operator=(const WorkerConnection&) = delete;
  /// The server is rank 0 of `communicator`, the worker rank 1.
  WorkerConnection(Communicator communicator, std::uint64_t worker, const ServerShard& shard);

  /// What it waits for; an invalid Work while a request has no answer.
  Work pending() const { return works_.empty() ? Work() : works_.front(); }
  /// To be called when pending() is done. Returns whether a whole request is there. Throws the Work's error,
  /// and InvalidArgumentError for a request that makes no sense.
  bool advance();

  /// Whether the last answer has left, and the next request is waited for.
  bool is_answered() const { return expected_ == Expected::header; }

  const Request& request() const { return request_; }
  /// Of a push, and the rows of pull_rows; until answer().
  Push& push() { return push_; }
  /// The values are copied.
  void answer(const Reply& reply, const at::Tensor& values);
  /// Ends the connection with a reason that the worker throws.
  void refuse(const std::string& reason) { communicator_.abort(reason); }

 private:
  enum class Expected { header, ids, values, answered };
  void receive_header();
  bool take_header();
  bool take_ids();

  RequestLimits limits_;
  const ServerShard& shard_;
  Expected expected_ = Expected::header;
  Header header_{}, reply_header_{};
  Request request_;
  std::vector<std::uint64_t> ids_;
  Push push_;
  at::Tensor answer_;
  Communicator communicator_;  ///< after what it reads and writes: it ends first
  std::deque<Work> works_;
};

}  // namespace kolo::methods
