// Parameter servers: S processes that hold a model's parameters, and move them by what workers push.
#pragma once

#include "kolo/train/libtorch.hpp"

#include <torch/nn/module.h>
#include <torch/optim/optimizer.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "kolo/store.hpp"
#include "kolo/train/distributed_data_parallel.hpp"

namespace kolo::methods {

/// When a worker that has pushed goes on.
enum class ServerRule {
  synchronous,  ///< after every live worker has pushed, with parameters moved by the average
  unbounded,    ///< at once; each push is an update of its own (J. Dean et al.: "Large Scale Distributed Deep
                ///< Networks", NIPS 2012, section 4.1)
  clocks,    ///< once the slowest live worker has made at most `staleness` pushes fewer (Q. Ho et al.: "More
             ///< Effective Distributed ML via a Stale Synchronous Parallel Parameter Server", NIPS 2013)
  versions,  ///< at once; a push whose parameters lack more than `staleness` updates is late
};

/// What becomes of a late push, with ServerRule::versions.
enum class LatePush {
  drop,    ///< it has no effect
  divide,  ///< it counts divided by its age in updates; with a staleness of 0 each push does (W. Zhang et
           ///< al.: "Staleness-Aware Async-SGD for Distributed Deep Learning", IJCAI 2016)
};

/// What a push has.
enum class PushKind {
  gradients,  ///< the server's optimizer moves the parameters
  weights,    ///< the worker's optimizer has moved them; the server averages: over a round with
              ///< ServerRule::synchronous, else parameters move by (weights - parameters) / live workers
};

/// The same on all ranks, but for `problem`. Ranks that differ get a MismatchError, all of them.
struct ParameterServerOptions {
  /// Number of servers, 1 or more: the first ranks of the job. All other ranks, at least one, are workers.
  int servers = 1;
  ServerRule rule = ServerRule::synchronous;  ///< when a worker that has pushed goes on
  /// The bound of ServerRule::clocks, in pushes, or of ServerRule::versions, in updates; 0 or more. Other
  /// rules have no bound, and take 0.
  std::int64_t staleness = 0;
  LatePush late = LatePush::drop;  ///< what becomes of a late push; other rules than versions take `drop`
  PushKind push = PushKind::gradients;  ///< what a worker sends, and which side has the optimizer
  /// Tables, by name, whose rows are pushed and pulled by number, besides those of torch::nn::Embedding and
  /// EmbeddingBag that were made with sparse(true). Row r lies on server r % servers.
  std::vector<std::string> sparse_parameters = {};
  /// Longest wait for other ranks at the start, and for a rank's next message.
  std::chrono::nanoseconds timeout = std::chrono::minutes(5);
  /// Longest wait for another server in place of a dead one, and of that one for the workers.
  std::chrono::nanoseconds reconnect = std::chrono::seconds(60);
  /// What this rank cannot train for, such as a file that is missing. All ranks throw it, with its rank.
  std::string problem = {};
};

/// The job's store, for servers and workers. Throws InvalidArgumentError if a rank would serve it, since all
/// ends when that rank does: `kolo run` serves one, and KOLO_STORE may name another. Throws as
/// store_from_environment().
std::shared_ptr<Store> parameter_server_store(const Launch& launch, std::chrono::nanoseconds timeout);

/// How far training has come, as a server sees it.
struct ServerProgress {
  std::uint64_t updates = 0;  ///< updates before this one
  /// Pushes of all workers before this update, dropped ones too. With ServerRule::synchronous a round has one
  /// of each worker.
  std::uint64_t pushes = 0;
};

/// What one server does on its own.
struct ParameterServerSettings {
  /// Makes the optimizer of this server's elements, one tensor, and of its rows of each table, a tensor for
  /// each. SGD, Adam, AdamW, RMSprop or Adagrad, which move each element alone; for tables SGD without
  /// momentum, Adagrad or SparseAdam, without weight decay; SparseAdam counts the updates that have rows of a
  /// table here. Not used if weights are pushed.
  OptimizerFactory make_optimizer = {};
  /// Called before each update; to set learning rates, for example. May be empty.
  std::function<void(torch::optim::Optimizer&, const ServerProgress&)> before_update = {};
  /// The folder that holds this server's share, optimizer and last pushes: read at the start if it is there,
  /// written at the start and end and every `checkpoint_every` updates. Empty: none, and a server that dies
  /// cannot come back.
  std::string checkpoint = {};
  /// Updates between two writes of `checkpoint`; 1 or more; with a file construction throws
  /// InvalidArgumentError for 0.
  std::uint64_t checkpoint_every = 100;
  /// Gets a line about each worker that is lost, and each checkpoint that is read. May be empty.
  std::function<void(const std::string&)> note = {};
};

/// What a server has done.
struct ParameterServerStatistics {
  std::uint64_t updates = 0;  ///< changes of this server's share: one a push, or one a round if synchronous
  /// Element s counts the pushes of staleness s, whether applied, divided or dropped. A push's staleness is
  /// the number of updates between the parameters that its worker had pulled and the push. synchronous: 0.
  /// Element 65536 counts those of more, too.
  std::vector<std::uint64_t> staleness;
  std::uint64_t dropped = 0;   ///< late pushes without effect
  std::uint64_t divided = 0;   ///< late pushes that counted divided by their age
  std::uint64_t repeated = 0;  ///< pushes that came again, after a reconnection, and had been applied
  std::vector<int> lost;       ///< numbers of the workers that were lost, from 0
};

/// One of S processes that hold a model's parameters, and move them by what workers push. Server s holds the
/// elements [P s/S, P (s+1)/S) of a model's P trainable elements, and the rows of
/// its tables with row % S == s (M. Li et al.: "Scaling Distributed Machine Learning with the Parameter
/// Server", OSDI 2014).
///
///     const auto store = kolo::methods::parameter_server_store(launch, options.timeout);
///     if (launch.rank < options.servers) {
///       kolo::methods::ParameterServer server(store, launch.rank, launch.size, *net, options,
///                                    {.make_optimizer = sgd});
///       server.serve();
///     } else {
///       kolo::methods::ParameterServerClient client(store, launch.rank, launch.size, *net, options);
///       client.pull();
///       for (const auto& [images, labels] : batches) { loss(net(images), labels).backward(); client.step();
///       } client.finish();
///     }
///
/// Each server has a communicator of two with each worker, so that a death ends that pair alone. A worker
/// that is lost is dropped: rounds and clocks go on without it. A server that is killed may be started again,
/// as the same rank with the same checkpoint: it takes a new generation in the store, the workers come to it,
/// and send again what it has not applied. Updates since its last checkpoint are lost. Not thread-safe.
class ParameterServer {
 public:
  /// Returns when all ranks have come and agree. Throws, on all ranks, InvalidArgumentError or MismatchError
  /// that names the rank with options that cannot be, other options, or another model; RendezvousError for
  /// ranks that do not come. Throws Error for a checkpoint of something else. `module` is read now, and may
  /// go. One store serves one job, or use make_prefix_store().
  ParameterServer(std::shared_ptr<Store> store, int rank, int size, const torch::nn::Module& module,
                  ParameterServerOptions options, ParameterServerSettings settings);
  ~ParameterServer();
  ParameterServer(const ParameterServer&) = delete;
  ParameterServer& operator=(const ParameterServer&) = delete;

  /// Serves until all workers have left or are lost. Throws PeerLostError if none has left; what
  /// before_update or a checkpoint throws ends the workers too, with its text.
  const ParameterServerStatistics& serve();

 private:
  class Service;
  std::unique_ptr<Service> service_;
};

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

}  // namespace kolo::methods
