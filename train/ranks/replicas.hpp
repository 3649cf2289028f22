// Makes the ranks' models equal: proves that they have the same shape, then copies rank 0's values.
#pragma once

#include "kolo/train/libtorch.hpp"

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "kolo/communicator.hpp"
#include "kolo/memory.hpp"
#include "kolo/train/tensor.hpp"

namespace kolo::train {

using kolo::NamedTensor;

/// A line for each tensor, with its name, type, shape, strides, note, and of what model it is which part.
std::string text_of_layout(std::span<const NamedTensor> tensors);

/// Copies one rank's values of a fixed list of tensors to all ranks. Small tensors travel together in one
/// message through staging memory, which is kept between calls.
class Replicator {
 public:
  explicit Replicator(const std::vector<NamedTensor>& tensors);

  /// Throws InvalidArgumentError, with its name, for a tensor that has got another type or shape since.
  void require_unchanged() const;

  /// Collective; the lists must have the same layout on all ranks. start() borrows the tensors until finish()
  /// has returned or thrown the broadcast's error; meanwhile the root's packed ones may change, unseen.
  void start(Communicator& communicator, int root);
  void finish();
  void run(Communicator& communicator, int root) {
    start(communicator, root);
    finish();
  }

 private:
  struct Member {
    NamedTensor named;
    at::ScalarType type;
    std::vector<std::int64_t> sizes;
  };

  std::vector<Member> members_;
  std::vector<at::Tensor> direct_;  ///< large and dense: broadcast where they lie
  std::vector<at::Tensor> packed_;
  std::vector<at::Tensor> staged_;  ///< one for each of packed_, in staging_
  std::optional<SharedMemory> staging_;
  std::vector<TensorWork> works_;
  bool is_root_ = false;
};

}  // namespace kolo::train
