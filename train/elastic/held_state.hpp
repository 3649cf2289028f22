// HeldState: a training state in memory of the ranks, to be loaded from there, and to be sent.
#pragma once

#include "kolo/train/libtorch.hpp"

#include <ATen/core/Tensor.h>

#include <map>
#include <string>
#include <vector>

#include "checkpoint/reader.hpp"
#include "kolo/communicator.hpp"

namespace kolo::train {

/// What ranks hold together: each the tensors that Checkpoint::collect() gives there. Not thread-safe.
class HeldState final : public StateReader {
 public:
  /// Not valid: this rank has all. Else collective, as fetch() is, which gets what other ranks have. What is
  /// each rank's own a rank without any gets from the first one that has it.
  explicit HeldState(std::vector<PlacedParameter> held, Communicator ranks = {});
  void fetch(const std::map<std::string, PlacedParameter>& wanted) override;
  at::Tensor read(const PlacedParameter& here) override;

  /// Collective: the root's tensors; on all other ranks, where `mine` is not used, copies on the CPU.
  static std::vector<PlacedParameter> from(Communicator& communicator,
                                           const std::vector<PlacedParameter>& mine, int root);

 private:
  const at::Tensor* find(const std::string& name, const Region& region) const;
  void read_part(const std::string& name, const HeldRegion& part, void* to) override;

  std::multimap<std::string, PlacedParameter> held_;  ///< with shortest_region()
  Communicator ranks_;
};

/// A copy of what a rank holds, in one tensor of bytes. The inverse's tensors lie within these.
at::Tensor pack(const std::vector<PlacedParameter>& held);
std::vector<PlacedParameter> unpack(const at::Tensor& bytes);

}  // namespace kolo::train
