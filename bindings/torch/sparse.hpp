// SparseSums: the all_reduces of sparse tensors of a process group.
#pragma once

#include <future>
#include <memory>
#include <mutex>
#include <optional>

#include "call.hpp"
#include "kolo/communicator.hpp"
#include "kolo/sparse.hpp"

namespace kolo::pytorch {

/// How many rows a sum has, the ranks know only when they have told each other. So each sum runs on a thread
/// of its own, after the sums before it, over links that its collectives share with those of the group.
class SparseSums {
 public:
  /// Begins `call`: `tensor` (COO) becomes the sum of all ranks' tensors, coalesced. All ranks get an error
  /// if shapes differ. Throws std::invalid_argument for what cannot be summed. Thread-safe.
  void begin(Communicator& communicator, const std::shared_ptr<Call>& call, const at::Tensor& tensor,
             const CallOptions& options);
  /// Ends sums that still run, on all ranks. None may begin afterwards.
  void end(Communicator& communicator);

 private:
  struct Sum;
  void run(Communicator& communicator, const kolo::Work& told, Sum& sum);

  std::mutex mutex_;
  std::shared_future<void> last_;
  std::atomic<int> running_{0};
  std::optional<SparseAllReduce> sums_;  // used by one thread after another
};

}  // namespace kolo::pytorch
