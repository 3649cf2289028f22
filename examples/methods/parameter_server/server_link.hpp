// A worker's side of its communicator with one server, which outlives the server's process.
#pragma once

#include "kolo/train/libtorch.hpp"

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "kolo/communicator.hpp"
#include "kolo/store.hpp"
#include "methods/parameter_server.hpp"
#include "methods/parameter_server/request.hpp"

namespace kolo::methods {

/// One request and where its answer goes; memory of the caller's.
struct Exchange {
  RequestKind kind = RequestKind::pull;
  at::Tensor elements = {};              ///< pushed; undefined: none
  std::vector<std::uint64_t> rows = {};  ///< ids
  at::Tensor row_values = {};            ///< pushed
  at::Tensor answer = {};                ///< gets parameters or rows; undefined: none
};

class ServerLink {
 public:
  ServerLink(std::shared_ptr<Store> store, int server, int worker, const ParameterServerOptions& options);
  ServerLink(const ServerLink&) = delete;
  ServerLink& operator=(const ServerLink&) = delete;

  /// Meets the server that has started last; returns what it has of this worker. Throws PeerLostError if none
  /// has started within `patience`.
  Reply connect(std::chrono::nanoseconds patience);

  /// Sends a request. A push gets the number that follows the last one.
  void start(Exchange exchange);
  /// Waits for its answer. If the server dies meanwhile, meets the one that takes its place, and repeats what
  /// that one has not applied. Throws PeerLostError if there is none, AbortedError with the reason of a
  /// server that gives up, or that found the request senseless.
  Reply finish();
  /// Without an answer if the server is dead.
  void say_goodbye() noexcept;

 private:
  void post(const Exchange& exchange, std::uint64_t sequence);
  Reply wait(RequestKind kind);
  /// What the server has applied of this worker.
  Reply ask();

  std::shared_ptr<Store> store_;
  int server_, worker_;
  std::chrono::nanoseconds timeout_, reconnect_;
  std::uint64_t generation_ = 0;  ///< of the server that this link has met
  std::uint64_t version_ = 0;     ///< of the parameters that were pulled last
  std::uint64_t sequence_ = 0;    ///< of the last push
  Exchange exchange_;             ///< that is under way
  bool is_posted_ = false;        ///< on communicator_
  Header request_{}, reply_{};
  Communicator communicator_;  ///< after what it reads and writes: it ends first
  std::vector<Work> works_;
};

}  // namespace kolo::methods
