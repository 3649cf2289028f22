// Unit: parameters that lie side by side in memory, of which each rank keeps a part.
#pragma once

#include "kolo/train/libtorch.hpp"

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "kolo/communicator.hpp"
#include "kolo/train/sharded_data_parallel.hpp"
#include "kolo/train/tensor.hpp"
#include "ranks/model.hpp"

namespace kolo::train {

struct PlannedUnit {
  std::string name;  ///< of the submodule; empty: the model itself
  NamedTensors parameters;
  bool is_frozen = false;  ///< its parameters want no gradients
  /// Other units may use its parameters too, so it is there for the whole of forward and backward.
  bool is_shared = false;
};

/// Divides the module's parameters into units of one element type each, trained or frozen, in the order in
/// which they are registered; those of one submodule follow each other. Frozen parameters that are no dense
/// tensors of kolo's types are left out. `names` as ShardedDataParallelOptions::units has them; throws
/// InvalidArgumentError for one that is no submodule or lies within another.
std::vector<PlannedUnit> plan_units(const torch::nn::Module& module, const std::vector<std::string>& names);

/// Elements are numbered through all members, in the order in which they lie in memory, and the numbers are
/// divided among the ranks as evenly as can be. Not thread-safe.
class Unit {
 public:
  struct Member {
    NamedTensor named;
    /// This rank's elements of it, perhaps none: [n] where the parameter has one dimension or none, else
    /// [n, 1]. A leaf, for the optimizer.
    at::Tensor shard;
    std::int64_t written = 0;  ///< the parameter's version after the last write that was taken over
  };
  /// Of the memory of the whole parameters.
  enum class State { released, gathering, whole };

  /// The parameters, dense tensors of one element type, keep their values and move into memory of the
  /// unit. With Shard::parameters that memory is given back. With `gather_type` those of float32 become
  /// tensors of that type; shards and gradients of trained ones are float32.
  Unit(const PlannedUnit& plan, int rank, int size, Shard shard, std::optional<at::ScalarType> gather_type);
  Unit(Unit&&) noexcept = default;
  Unit& operator=(Unit&&) noexcept = default;

  const std::vector<Member>& members() const noexcept { return members_; }
  /// Nothing of it gets a gradient, and no step moves its shards.
  bool is_frozen() const noexcept { return is_frozen_; }
  /// Of the gradients of one backward, which are averaged.
  std::uint64_t gradient_bytes() const { return is_frozen_ ? 0 : gradients_.bytes(); }
  /// Elements of the member that each rank has.
  std::vector<std::uint64_t> counts_of(const Member& member) const;
  /// A tensor whose storage all members share.
  const at::Tensor& watched() const { return members_.front().named.tensor; }

  State state() const noexcept { return state_; }
  /// Of the shards' values: grows with each write to one, as far as tensors count them, and with each
  /// note_move().
  std::uint64_t version() const;
  void note_move() noexcept { moves_ += is_frozen_ ? 0 : 1; }
  /// What take_values() takes over has been written to, as far as is known.
  void note_write() noexcept { is_written_ = true; }
  /// All elements of all ranks are there, as the shards are now.
  bool is_current() const { return state_ == State::whole && gathered_version_ == version(); }
  /// Starts to make the unit current: collective. Nothing where it is, or is about to be.
  void start_gather(Communicator& communicator, const CallOptions& options);
  void wait_gather();
  /// Gives the memory back; only with Shard::parameters. Throws what require_own() does.
  void release();
  /// Memory with any values, for operations of a step that has failed.
  void provide();
  /// Throws InvalidArgumentError, with its name, for a parameter that lies in other memory than the unit's,
  /// that was written to although the shards do not see it, or that was frozen and wants a gradient now.
  void require_own() const;
  /// Copies elements from the whole parameters, which may have been loaded, into the shards. Throws
  /// InvalidArgumentError, with its name, for a parameter of another type or shape.
  void take_values();

  /// A backward begins: gradients that the shards have will be added to.
  void begin_gradients();
  /// Takes a member's gradient away, into memory of the unit.
  void collect(std::size_t member);
  /// Starts to average: collective. All members are collected.
  void start_scatter(Communicator& communicator, const CallOptions& options);
  /// Waits, gives the gradients' memory back, and returns what the averaging took.
  std::chrono::nanoseconds wait_scatter();
  /// This rank's gradients, for another way to average. Takes this rank's part of them then, and gives their
  /// memory back.
  const FlatTensors& gradients() const noexcept { return gradients_; }
  std::vector<std::uint64_t> counts() const { return {counts_.begin(), counts_.end()}; }
  void take_own_gradients();
  /// This rank's averages.
  at::Tensor own_gradients() const { return own_gradients_.flat(); }
  bool own_gradients_are_finite() const { return are_finite(std::span(&own_gradients_, 1)); }
  /// Makes the averages, and what was there before, the shards' gradients.
  void attach_gradients();
  /// No rank has used the member: its shard has the gradient that it had before this backward, or none.
  void forget(std::size_t member);
  /// Returns when no call borrows memory. Swallows errors.
  void settle() noexcept { scatter_ = {}; }

 private:
  /// Shards lie in other memory than the parameters.
  bool is_apart() const { return shard_ == Shard::parameters || type_ != own_type_; }
  bool is_written(const Member& member) const;
  void provide_own_gradients();

  std::vector<Member> members_;
  bool is_frozen_;
  Shard shard_;
  at::ScalarType type_, own_type_;    ///< of parameters; of shards and gradients
  FlatTensors whole_;                 ///< the parameters
  std::vector<std::int64_t> counts_;  ///< elements of each rank
  Slice range_;                       ///< of this rank
  FlatTensors own_;                   ///< this rank's elements; a part of whole_ unless is_apart()
  State state_ = State::released;
  std::uint64_t moves_ = 0;             ///< that tensors do not count
  bool is_written_ = false;             ///< since the last take_values()
  std::uint64_t gathered_version_ = 0;  ///< of the shards, when the last gather started
  TensorWork gather_;

  /// This rank's, of all elements; no memory between steps, but for Shard::optimizer_state.
  FlatTensors gradients_;
  FlatTensors own_gradients_;       ///< averages of this rank's elements
  FlatTensors earlier_;             ///< what the shards had before this backward; no memory: nothing
  std::vector<bool> had_gradient_;  ///< of each member's shard, when this backward began
  TensorWork scatter_;
};

}  // namespace kolo::train
