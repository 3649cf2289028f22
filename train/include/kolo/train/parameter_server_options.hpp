// What the ranks of a job with parameter servers agree on.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

namespace kolo {

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

}  // namespace kolo
