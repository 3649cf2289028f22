// HeldState: a training state in memory, to be loaded from there, and to be sent.
#pragma once

#include "kolo/train/libtorch.hpp"

#include <map>
#include <string>
#include <vector>

#include "checkpoint/reader.hpp"
#include "kolo/communicator.hpp"

namespace kolo::train {

/// What Checkpoint::collect() gives: the tensors themselves. Not thread-safe.
class HeldState final : public StateReader {
 public:
  explicit HeldState(std::vector<PlacedParameter> held);
  at::Tensor read(const PlacedParameter& here) override;
  /// Other ranks have the rest: shards.
  bool is_part() const;

  /// Collective: the root's, whose tensors are then copies on the CPU on all other ranks. There `mine` is not
  /// used.
  static HeldState from(Communicator& communicator, const HeldState* mine, int root);

 private:
  std::map<std::string, PlacedParameter> held_;
};

}  // namespace kolo::train
