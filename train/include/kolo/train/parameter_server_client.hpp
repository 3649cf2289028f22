// ParameterServerClient: a worker's side of the parameter servers.
#pragma once

#include "kolo/train/libtorch.hpp"

#include <torch/nn/module.h>

#include <cstdint>
#include <memory>
#include <string>

#include "kolo/store.hpp"
#include "kolo/train/parameter_server_options.hpp"

namespace kolo {

/// What became of a push, over all servers.
struct PushReport {
  std::uint64_t staleness = 0;  ///< most updates that a server made between the pull and this push
  int dropped = 0;              ///< servers that dropped it
  int divided = 0;              ///< servers that divided it by its age
};

/// A worker that computes gradients of `module` with parameters that it pulls. See ParameterServer for an
/// example.
///
/// Each call talks to all servers at a time. A server that dies is waited for, up to
/// ParameterServerOptions::reconnect, and gets what it has not applied; if none takes its place, the call
/// throws PeerLostError that names it. A server that gives up ends the call with AbortedError and its reason.
/// Not thread-safe.
class ParameterServerClient {
 public:
  /// Returns when all ranks have come and agree; throws as ParameterServer does. The module's parameters stay
  /// as they are until pull(). It must outlive this.
  ParameterServerClient(std::shared_ptr<Store> store, int rank, int size, torch::nn::Module& module,
                        ParameterServerOptions options);
  /// Says goodbye, unless an exception is on its way: then servers take the worker for lost.
  ~ParameterServerClient();
  ParameterServerClient(const ParameterServerClient&) = delete;
  ParameterServerClient& operator=(const ParameterServerClient&) = delete;

  /// This worker's number, from 0: its rank less the servers.
  int worker() const noexcept;
  /// How many workers the job began with, lost ones too.
  int workers() const noexcept;

  /// Sets all parameters but tables; with ServerRule::clocks, waits for slower workers.
  void pull();
  /// Pushes the parameters' gradients, or their values, as the options say. A parameter without a gradient
  /// counts as zero; a table's gradient must be sparse, or undefined. Leaves the gradients as they are.
  PushReport push();
  /// Both, in one message to each server and back.
  PushReport step();
  /// Sets these rows of a table: `rows` is int64 [n], each row once or more often. The other rows stay as
  /// they are, and are of any age. Throws InvalidArgumentError for a name that is no table, or rows that it
  /// lacks.
  void pull_rows(const std::string& table, const at::Tensor& rows);
  /// Says that this worker pushes no more, waits until no worker does, and sets the final parameters.
  void finish();

 private:
  class Connections;
  std::unique_ptr<Connections> connections_;
};

}  // namespace kolo
