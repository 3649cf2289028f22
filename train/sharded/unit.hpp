// Unit: parameters that lie side by side in memory, of which each rank keeps a part.
#pragma once

#include "kolo/train/libtorch.hpp"

#include <c10/core/Storage.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "kolo/communicator.hpp"
#include "kolo/train/sharded_data_parallel.hpp"
#include "kolo/work.hpp"
#include "ranks/replicas.hpp"

namespace kolo::train {

/// Elements are numbered through all members, in the order in which they lie in memory, and the numbers are
/// divided among the ranks as evenly as can be. Not thread-safe.
class Unit {
 public:
  struct Member {
    NamedTensor named;
    std::uint64_t begin;  ///< its first element's number
    /// This rank's elements of it, perhaps none: [n] where the parameter has one dimension or none, else
    /// [n, 1]. A leaf, for the optimizer.
    at::Tensor shard;
    std::vector<std::int64_t> sizes = {}, strides = {};  ///< of the parameter
    std::int64_t written = 0;  ///< the parameter's version after the last write that was taken over
  };
  /// Of the memory of the whole parameters.
  enum class State { released, gathering, whole };

  /// The parameters, dense CPU tensors of one element type, keep their values and move into memory of the
  /// unit. With Shard::parameters that memory is given back.
  Unit(std::vector<NamedTensor> parameters, int rank, int size, Shard shard);
  Unit(Unit&&) noexcept = default;
  Unit& operator=(Unit&&) noexcept = default;
  ~Unit();

  const std::vector<Member>& members() const noexcept { return members_; }
  std::uint64_t bytes() const;
  /// Elements of the member that each rank has.
  std::vector<std::uint64_t> counts_of(const Member& member) const;
  /// A tensor whose storage all members share.
  const at::Tensor& watched() const { return members_.front().named.tensor; }

  State state() const noexcept { return state_; }
  /// Of the shards' values: grows with each write to one, as far as tensors count them, and with each
  /// note_move().
  std::uint64_t version() const;
  void note_move() noexcept { ++moves_; }
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
  /// Throws InvalidArgumentError, with its name, for a parameter or a shard that lies in other memory than
  /// the unit's, and for a parameter whose memory is given back although it was written to.
  void require_own() const;
  /// Copies elements from the whole parameters, which may have been loaded, into the shards. Throws
  /// InvalidArgumentError, with its name, for a parameter of another type or shape.
  void take_values();

  /// A backward begins: gradients that the shards have will be added to.
  void begin_gradients();
  /// Takes a member's gradient away, into memory of the unit.
  void collect(std::size_t member);
  bool is_complete() const noexcept { return missing_ == 0; }
  /// What has no gradient counts as zero.
  void complete();
  /// Whether the gradient of each member was there to be taken.
  std::span<const std::uint8_t> used() const noexcept { return used_; }
  /// Starts to average: collective. The unit is complete.
  void start_scatter(Communicator& communicator, const CallOptions& options);
  bool is_scattering() const noexcept { return scatter_.valid(); }
  /// Waits, and makes the averages the shards' gradients.
  void finish_scatter();
  /// Shards of members that no rank used have the gradients that they had before this backward, or none.
  void forget_unused(std::span<const std::uint8_t> used_anywhere);

 private:
  using Memory = std::shared_ptr<std::byte[]>;
  std::byte* at(const Memory& memory, std::uint64_t element) const {
    return memory.get() + element * element_bytes_;
  }
  Buffer part_of(const Memory& memory, std::uint64_t begin, std::uint64_t count) const;
  /// Calls with a member's shard and where its elements are in memory that holds this rank's ones.
  template <typename Use>
  void for_each_shard(const Use& use);
  void make_storage();
  bool is_here(const Member& member) const;
  bool is_written(const Member& member) const;
  void adopt();

  std::vector<Member> members_;
  Shard shard_;
  DType dtype_;
  std::uint64_t element_bytes_;
  std::uint64_t count_ = 0;
  std::vector<std::uint64_t> counts_;  ///< of each rank
  std::uint64_t own_begin_ = 0, own_count_ = 0;

  c10::Storage storage_;  ///< of all members
  Memory whole_;          ///< null: given back
  Memory own_;            ///< this rank's elements; with whole_ kept, a part of it
  State state_ = State::released;
  std::uint64_t moves_ = 0;             ///< that tensors do not count
  bool is_written_ = false;             ///< since the last take_values()
  std::uint64_t gathered_version_ = 0;  ///< of the shards, when the last gather started
  Work gather_;

  Memory gradients_;  ///< this rank's, of all elements; null between steps, but for Shard::optimizer_state
  Memory own_gradients_;            ///< averages of this rank's elements
  Memory earlier_;                  ///< what the shards had before this backward; null: nothing
  std::vector<bool> had_gradient_;  ///< of each member's shard, when this backward began
  std::vector<bool> has_gradient_;  ///< is collected
  std::vector<std::uint8_t> used_;
  std::size_t missing_ = 0;
  Work scatter_;
};

}  // namespace kolo::train
