// ParameterServer: one of S processes that hold a model's parameters, and move them by what workers push.
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
#include "kolo/train/parameter_server_options.hpp"

namespace kolo {

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
  /// The file that holds this server's share, optimizer and last pushes: read at the start if it is there,
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
///     const auto store = kolo::parameter_server_store(launch, options.timeout);
///     if (launch.rank < options.servers) {
///       kolo::ParameterServer server(store, launch.rank, launch.size, *net, options,
///                                    {.make_optimizer = sgd});
///       server.serve();
///     } else {
///       kolo::ParameterServerClient client(store, launch.rank, launch.size, *net, options);
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

}  // namespace kolo
