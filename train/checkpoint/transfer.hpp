// Transfer: one description of what a checkpoint holds serves to save it and to load it.
#pragma once

#include "kolo/train/libtorch.hpp"

#include <ATen/core/Tensor.h>

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "checkpoint/reader.hpp"
#include "kolo/communicator.hpp"

namespace kolo::train {

/// Collective: what `action` throws on any rank, all ranks throw as Error: "rank 1 cannot save the
/// checkpoint: ...".
void on_all_ranks(Communicator& communicator, const char* verb, const std::function<void()>& action);
/// "rank-3/", with which the names of a rank's own tensors begin.
std::string of_rank(int rank);

/// All of a tensor.
PlacedParameter whole_tensor(std::string name, const at::Tensor& values);

/// Saves, or loads in two parts: what does not fit is found before run() changes anything.
class Transfer {
 public:
  /// Null: saves.
  Transfer(int rank, int ranks, StateReader* there = nullptr) : rank_(rank), ranks_(ranks), there_(there) {}

  bool loads() const { return there_ != nullptr; }
  int rank() const { return rank_; }
  /// The rank whose hook state this rank saves or loads. If another number of ranks has saved, it is this
  /// rank modulo that number: the mean over ranks of what was left out stays about the same.
  int rank_of_hook() const {
    return loads() ? rank_ % static_cast<int>(there_->index().files.size()) : rank_;
  }
  bool has(const std::string& name) const { return tensors().contains(name); }
  /// While it loads: all that is there.
  const StoredTensors& tensors() const { return there_->index().tensors; }
  /// Throws std::runtime_error where another number of ranks has saved this, which is each rank's own.
  void require_as_many(const std::string& name) const;
  /// Whether a rank's own state, without which training goes on, is to be saved, or there to be loaded.
  bool wants(const std::string& name) const;

  /// Saves the region, by any rank that has it if `is_trained`, else by the first one; or loads it into its
  /// tensor, or into the one that `make` returns then for the values that are there, perhaps these. Throws
  /// std::runtime_error where there is none of this name and shape, and type without `make`; but of float32,
  /// float16 and bfloat16 one becomes the other: shards in 16 bits have float32 in another wrapper.
  void tensor(PlacedParameter region, std::function<at::Tensor(const at::Tensor& values)> make = {});
  /// Saves what `get` returns, on rank 0 or on each rank, or gives `set` what is there.
  void text(const std::string& name, bool is_own, const std::function<std::string()>& get,
            std::function<void(const std::string&)> set);
  /// While it loads: what text() gives to `set`.
  std::string text_there(const std::string& name) const;
  /// While it loads: all of a tensor. Throws std::runtime_error where there is none.
  at::Tensor values(const std::string& name) const;
  /// Called by run(), in turn with what else is loaded.
  void then(std::function<void()> action) { steps_.push_back(std::move(action)); }
  void run();

  std::vector<PlacedParameter> held;              ///< to be saved
  std::map<std::string, PlacedParameter> wanted;  ///< what is loaded, by name

 private:
  int rank_, ranks_;
  StateReader* there_;
  std::vector<std::function<void()>> steps_;
};

}  // namespace kolo::train
